"""Where the record of this machine is: a user's own, or one that root keeps for all users."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from gputui.protocol.black_boxes import default_folder

SHARED = "/var/lib/gputui/machine.db"
"""What `gputui record --shared` writes, and every user reads."""


def own_file(environment: Mapping[str, str]) -> str:
    """`machine.db` in the user's folder for state; "" if there is no home."""
    folder = default_folder(environment)
    return f"{folder}/machine.db" if folder else ""


def file_to_read(environment: Mapping[str, str]) -> str:
    """The user's own record or the shared one, whichever was written last; the user's own where neither can be read."""
    return max(own_file(environment), SHARED, key=_written)


def _written(path: str) -> float:
    """When SQLite last wrote the file, or the WAL beside it (epoch seconds); 0 where neither can be read."""
    newest = 0.0
    for file in (path, f"{path}-wal"):
        with suppress(OSError):
            newest = max(newest, Path(file).stat().st_mtime if os.access(file, os.R_OK) else 0.0)
    return newest
