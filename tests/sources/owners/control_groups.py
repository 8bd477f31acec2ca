"""Control groups of the kernel's that tests make."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.hanging import wait_until

CGROUPS = Path("/sys/fs/cgroup")
SECOND, FIRST = CGROUPS / "unified", CGROUPS / "memory"
"""Where a machine has both versions."""


@contextmanager
def made(folder: Path) -> Iterator[Path]:
    """A folder of the kernel's, made with those above it and taken away again."""
    new = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        wait_until(lambda: not (folder / "cgroup.procs").read_text())  # processes that were killed end later
        for parent in new:
            parent.rmdir()
