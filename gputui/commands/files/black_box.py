"""`gputui black-box`: lists what was kept of out-of-memory errors, newest first."""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path
from typing import Any

from gputui.commands.parser import Parser
from gputui.explain.answer.verdict import look_holders, verdict
from gputui.explain.failure.analysis import analysis_of
from gputui.explain.failure.sentences import asked_words
from gputui.model.attached.failure import FailureAnalysis
from gputui.output import cut, output_width, put, put_document
from gputui.settings import Settings
from gputui.sources.files.black_box import BlackBox
from gputui.sources.files.black_box_folder import KeptFile, folder_of, kept_files
from gputui.units import format_bytes

NONE = """\
No black boxes in {folder}.

When a program that was started with `gputui run` (or with GPUTUI_BLACK_BOX=DIR and `import gputui.probe`) runs out of
GPU memory, its probe keeps what held the memory in a file there. At most 20 files are kept, the newest.
"""
PIPE_COLUMNS = 80
SHORTEST = 40


def run(arguments: list[str], _settings: Settings | None = None) -> int:
    """Print the list; without black boxes, how they come about."""
    parser = Parser(
        prog="gputui black-box",
        usage="gputui black-box [--dir DIR] [--json]",
        description="List what was kept of out-of-memory errors, newest first. `gputui open FILE` shows one.",
    )
    parser.add_argument("--dir", metavar="DIR", help="another folder than the one in which `gputui run` keeps them")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parsed = parser.parse(arguments)
    folder = Path(parsed.dir) if parsed.dir else folder_of(os.environ)
    files = kept_files(folder)
    if parsed.json:
        put_document({"schema": "gputui.black-boxes/1", "black_boxes": [_entry(file) for file in files]})
    elif files:
        put("\n".join(map(_words, files)))
    else:
        put(NONE.format(folder=folder))
    return 0


def _words(file: KeptFile) -> str:
    """Three lines: when and what, the error, the command that opens it."""
    box = file.box()
    width = max(SHORTEST, output_width(PIPE_COLUMNS))
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(file.time))
    first = cut(f"{at}  {_program(box)}", width)
    error = f"    {_error(box)}"
    command = f"    gputui open {_for_a_shell(file.path)}"
    return f"{first}\n{error if isinstance(box, str) else cut(error, width)}\n{command}\n"


def _for_a_shell(path: Path) -> str:
    """The path as it is typed, with ~ for the home."""
    home = os.environ.get("HOME", "")
    if home and path.is_relative_to(home) and path != Path(home):
        return f"~/{shlex.quote(str(path.relative_to(home)))}"
    return shlex.quote(str(path))


def _program(box: BlackBox | str) -> str:
    if isinstance(box, str):
        return "unreadable"
    greeting = box.moment.greeting
    program, space, arguments = greeting.command.partition(" ")
    rank = f"rank {greeting.rank} of {greeting.world_size}  " if greeting.rank is not None else ""
    return f"{rank}{program.rpartition('/')[2]}{space}{arguments}"


def _error(box: BlackBox | str) -> str:
    if isinstance(box, str):
        return box
    failure, analysis = box.failure, analysis_of(box.moment)
    asked = f"{format_bytes(failure.requested_bytes)} asked for on device {failure.device}"
    if failure.asked_by:
        asked = asked_words(failure)
    top = _top_holder(box, analysis, likely="most likely ")
    if analysis is None or top is None:
        return asked
    return f"{asked}; {top[0]} held {format_bytes(top[1])} of {format_bytes(analysis.reserved_bytes)}"


def _top_holder(box: BlackBox, analysis: FailureAnalysis | None, likely: str = "") -> tuple[str, int] | None:
    """The name and bytes of the largest holder that the first lines of Why name, or else of the largest kind of memory.

    With `likely`, the variable that probably holds the memory without a name is named, with `likely` in front.
    """
    device = box.moment.device(box.failure.device)
    answer = device and verdict(box.moment, device, looks=[look_holders(box.moment, device)])
    if answer and answer.holders:
        largest = answer.holders[0].holder
        return f"{likely}{answer.suspect}" if likely and answer.suspect else largest.name, largest.bytes
    part = next(iter(analysis.parts), None) if analysis else None
    return (part.name, part.bytes) if part else None


def _entry(file: KeptFile) -> dict[str, Any]:
    box = file.box()
    entry: dict[str, Any] = {"path": str(file.path), "time": file.time}
    if isinstance(box, str):
        return entry | {"problem": box}
    greeting, failure, analysis = box.moment.greeting, box.failure, analysis_of(box.moment)
    top = _top_holder(box, analysis)
    return entry | {
        "time": failure.time,
        "command": greeting.command,
        "pid": greeting.pid,
        "rank": greeting.rank,
        "hostname": failure.hostname or None,
        "device": failure.device,
        "asked_by": failure.asked_by or None,
        "requested_bytes": failure.requested_bytes or None,
        "top_holder": {"name": top[0], "bytes": top[1]} if top else None,
    }
