"""Whether the folder for state belongs to the user who runs gputui: root may have got the HOME of another user."""

from __future__ import annotations

import os
from pathlib import Path


def is_own_place() -> bool:
    """Whether this user owns $XDG_STATE_HOME or the home: another owner could put in a link to any place."""
    try:
        home = os.environ.get("XDG_STATE_HOME") or Path.home()
        return Path(home).stat().st_uid == os.geteuid()
    except (OSError, RuntimeError):  # the folder is still to be made, or the user has no home
        return True
