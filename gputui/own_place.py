"""Whether the folder for state is of the user who runs gputui: who becomes root may keep another user's HOME."""

from __future__ import annotations

import os
from pathlib import Path


def is_own_place() -> bool:
    """Whether no other user can put a link into it, through which a file would be made elsewhere."""
    try:
        home = os.environ.get("XDG_STATE_HOME") or Path.home()
        return Path(home).stat().st_uid == os.geteuid()
    except (OSError, RuntimeError):  # it is made, or the user has no home
        return True
