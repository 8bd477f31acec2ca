"""`gputui snapshot`: saves the allocator's map of a running process for the viewer at pytorch.org/memory_viz."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal

from gputui.commands.parser import Parser, pid_of
from gputui.commands.reach.probes import attached
from gputui.errors import GputuiError, UsageError
from gputui.explain.documents.memory_viz import snapshot_file
from gputui.explain.moment.limits import look_problems
from gputui.model.attached.target import Greeting, Look
from gputui.output import narrate
from gputui.settings import Settings
from gputui.units import format_bytes

VIEWER = "https://pytorch.org/memory_viz"


def run(arguments: list[str], _settings: Settings | None = None) -> int:
    """Look at a process, and write the file."""
    parser = Parser(
        prog="gputui snapshot",
        usage="gputui snapshot PID -o FILE",
        description=f"Save what PyTorch's allocator holds, with the names of the tensors, for the viewer at {VIEWER}.",
    )
    parser.add_argument("pid", metavar="PID", help="a process with the probe loaded")
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="the file to write, such as memory.pickle"
    )
    parsed = parser.parse(arguments)
    pid = pid_of(parsed.pid)
    path = Path(parsed.output)
    check_path(path)
    with attached(pid, parser.prog) as client:
        look = client.look()
        greeting = client.greeting
    save(path, _file(pid, greeting, look))
    return 0


def _file(pid: int, greeting: Greeting, look: Look) -> bytes:
    if look.map is None:
        cause = f"There is nothing to save for process {pid}."
        raise GputuiError(cause, " ".join(problem.text for problem in look_problems(greeting, look)))
    return snapshot_file(look, look.map)


def check_path(path: Path) -> None:
    """Report a path that cannot be written before the process is interrupted for a look."""
    if path.is_dir():
        cause = f"{path} is a folder."
        raise UsageError(cause, f"Name a file in it: -o {shlex.quote(str(path / 'memory.pickle'))}.")
    if path.is_file():
        cause = f"{path} exists already."
        raise UsageError(cause, "Name another file, or delete this one first.")
    if not path.parent.is_dir():
        cause = f"There is no folder {path.parent}."
        raise UsageError(cause, "Create it, or name a file elsewhere.")


def save(path: Path, data: bytes, mode: Literal["wb", "xb"] = "wb") -> None:
    """Write a file for PyTorch's viewer, and say what to do with it."""
    try:
        with path.open(mode) as file:
            file.write(data)
    except OSError as error:
        cause = f"{path} cannot be written: {error.strerror}."
        raise GputuiError(cause, "Name a file elsewhere with -o.") from None
    narrate(f"{path} is written ({format_bytes(len(data))}). Drop it onto {VIEWER}: the page uploads nothing.")
