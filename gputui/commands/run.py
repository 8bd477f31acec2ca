"""`gputui run`: the program, with the probe loaded in it and in every Python that it starts.

This process becomes the program (exec), so its exit status, signals and terminal are the program's own.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import NoReturn

import gputui
from gputui.errors import GputuiError, UsageError
from gputui.output import put
from gputui.settings import Settings

HELP = """\
usage: gputui run PROGRAM [argument ...]

Runs a program with the probe loaded, so that `gputui attach` can look inside it:

  gputui run train.py --epochs 3        a Python script
  gputui run -m package.train           a module; any option of python may stand here
  gputui run torchrun --nproc-per-node 8 train.py
  gputui run python train.py            any command

Everything after `run` is the program's: its arguments, exit status, signals and terminal are untouched. A script runs
with the Python that gputui is installed in if that has PyTorch, else with `python` as the shell finds it.
"""
PRELOAD = Path(gputui.__file__).parent / "probe" / "preload"

_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


class NotRunnableError(GputuiError):
    """The program cannot be started: 126 and 127 are what a shell returns."""

    def __init__(self, cause: str, remedy: str, exit_status: int) -> None:
        super().__init__(cause, remedy)
        self.exit_status = exit_status


def run(arguments: list[str], _settings: Settings | None = None) -> int:
    """Become the program that `arguments` name; returns only for --help."""
    if arguments[:1] not in (["--help"], ["-h"]):
        _become(_command_line(arguments), _environment())
    put(HELP)
    return 0


def _command_line(arguments: list[str]) -> list[str]:
    """The command meant: options of Python, a script, or a command with its arguments."""
    if not arguments:
        cause = "gputui run needs a program."
        raise UsageError(cause, "For example: gputui run train.py, or gputui run torchrun train.py.")
    first = arguments[0]
    if first.startswith("-") or first.endswith((".py", ".pyw", ".pyz")) or _is_script(Path(first)):
        return [_python(), *arguments]
    return arguments


def _is_script(path: Path) -> bool:
    """Whether `path` is for Python to run: a file that cannot be run by itself, or a folder with a program."""
    return (path.is_file() and not os.access(path, os.X_OK)) or (path / "__main__.py").is_file()


def _python() -> str:
    if importlib.util.find_spec("torch") is not None:
        return sys.executable
    return shutil.which("python") or shutil.which("python3") or sys.executable


def _environment() -> dict[str, str]:
    given = Path("/proc/self/environ").read_bytes().split(b"\0")  # os.environ has what Python sets in the C locale
    environment = dict(os.fsdecode(entry).split("=", 1) for entry in given if b"=" in entry)
    others = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = f"{PRELOAD}{os.pathsep}{others}" if others else str(PRELOAD)
    return environment


def _become(command: list[str], environment: dict[str, str]) -> NoReturn:
    program = shutil.which(command[0])
    if program is None:
        raise _not_found(command[0])
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)  # what is ignored stays ignored in the program
    try:
        os.execve(program, command, environment)
    except OSError as error:
        cause = f"{command[0]} cannot be run: {error.strerror}."
        raise NotRunnableError(cause, "", 126) from error


def _not_found(name: str) -> NotRunnableError:
    if Path(name).is_dir():
        return NotRunnableError(
            f"{name} cannot be run: it is a folder without a __main__.py.",
            f"Name a file, such as {Path(name, 'train.py')}.",
            126,
        )
    if Path(name).exists():
        return NotRunnableError(f"{name} cannot be run: it is not executable.", f"Try chmod +x {name}.", 126)
    cause = f"There is no file and no command {name!r}."
    return NotRunnableError(
        cause, "Give a script (train.py), a module (-m package.train) or a command of the PATH.", 127
    )
