"""The files of black boxes: where they are, what they are named, and how they begin. Standard library only.

A black box is a line with its version, then a zlib stream of frames with a probe's messages: `greeting`, `statistics`,
`failure`, `look` and maybe `traces`. If the error has ended the program or a thread, a second stream has `ended`.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` costs 3 ms
    from collections.abc import Mapping

VERSION = 1
FIRST_WORDS = b"gputui black box "
FIRST_LINE = FIRST_WORDS + b"%d\n" % VERSION
SUFFIX = ".blackbox"
FILES_AT_MOST = 20
BYTES_AT_MOST = 200 * 1024**2
"""How many black boxes a folder keeps, and their size together."""

_NAME = re.compile(r"[\w.-]{1,80}-\d{8}-\d{6}-\d{1,10}-\d{1,10}" + re.escape(SUFFIX), re.ASCII)


def default_folder(environment: Mapping[str, str]) -> str | None:
    """`$XDG_STATE_HOME/gputui`, by default `~/.local/state/gputui`; None if there is no home."""
    state = environment.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):
        home = environment.get("HOME", "")
        if not os.path.isabs(home):
            return None
        state = os.path.join(home, ".local", "state")
    return os.path.join(state, "gputui")


def file_name(program: str, local_time: str, pid: int, number: int) -> str:
    """The name of a program's black box with this number: "train-20261122-031500-4711-1.blackbox"."""
    words = re.sub(r"[^\w.-]+", "_", program, flags=re.ASCII).strip("._-")[:40] or "python"
    return f"{words}-{local_time}-{pid}-{number}{SUFFIX}"


def is_name(name: str) -> bool:
    """Whether a file's name is that of a black box; no other file is ever listed or removed."""
    return bool(_NAME.fullmatch(name))
