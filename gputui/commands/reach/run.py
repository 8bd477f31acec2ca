"""`gputui run`: runs a program with the probe loaded in it and in every Python that it starts.

This process becomes the program (exec), so its exit status, signals and terminal are the program's own.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import signal
import sys
from pathlib import Path
from typing import NoReturn

import gputui
from gputui import environment
from gputui.errors import GputuiError, UsageError
from gputui.output import put
from gputui.protocol import black_boxes
from gputui.settings import Settings
from gputui.sources.procfs import ProcFs

HELP = """\
usage: gputui run [--black-box DIR | --no-black-box] [--memory-history] PROGRAM [argument ...]

Runs a program with the probe loaded, so that `gputui attach` can look inside it:

  gputui run train.py --epochs 3        a Python script
  gputui run -m package.train           a module, or any other option of python
  gputui run torchrun --nproc-per-node 8 train.py
  gputui run python train.py            any command

Everything from the program's name on belongs to the program; its exit status, signals and terminal are its own too. A
script runs with the Python that gputui is installed in if that has PyTorch, otherwise with the `python` that the shell
finds.

When the program runs out of GPU memory, the probe keeps what held it in a black box: `gputui black-box` lists them.

  --black-box DIR   keep them in this folder instead of $XDG_STATE_HOME/gputui (by default ~/.local/state/gputui)
  --no-black-box    keep none
  --memory-history  record allocations all the time, so that a black box shows the last steps before the error, and
                    `gputui whatif` says which settings or batch would have fitted; steps take a little longer
"""
PRELOAD = Path(gputui.__file__).parent / "probe" / "preload"

_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


class NotRunnableError(GputuiError):
    """The program cannot be started; the exit status is 126 or 127, as in a shell."""

    def __init__(self, cause: str, remedy: str, exit_status: int) -> None:
        super().__init__(cause, remedy)
        self.exit_status = exit_status


def run(arguments: list[str], _settings: Settings | None = None) -> int:
    """Become the program that `arguments` name; returns only for --help."""
    if arguments[:1] not in (["--help"], ["-h"]):
        variables = _environment()
        arguments = _with_options(variables, arguments)
        _become(_command_line(arguments), variables)
    put(HELP)
    return 0


def _with_options(variables: dict[str, str], arguments: list[str]) -> list[str]:
    """Put what the options say of black boxes into `variables`, for the probe, and return the arguments after them."""
    default = black_boxes.default_folder(variables)
    if default is not None:
        variables.setdefault(environment.BLACK_BOX, default)
    has_history = False
    while arguments:
        word, sign, folder = arguments[0].partition("=")
        used = 1
        if arguments[0] == "--memory-history":
            variables[environment.MEMORY_HISTORY], has_history = "1", True
        elif arguments[0] == "--no-black-box":
            variables.pop(environment.BLACK_BOX, None)
        elif word == "--black-box":
            used = 1 if sign else 2
            folder = folder if sign else "".join(arguments[1:2])
            if not folder:
                cause = "--black-box needs a folder."
                raise UsageError(cause, "For example: gputui run --black-box out train.py.")
            variables[environment.BLACK_BOX] = str(Path(folder).absolute())
        else:
            break
        arguments = arguments[used:]
    if has_history and environment.BLACK_BOX not in variables:
        cause = "--memory-history needs a black box to keep it in."
        raise UsageError(cause, "Leave --no-black-box out, or name a folder: --black-box DIR.")
    return arguments


def _command_line(arguments: list[str]) -> list[str]:
    """The command to run, with `python` in front of a script or of options."""
    if not arguments:
        cause = "gputui run needs a program."
        raise UsageError(cause, "For example: gputui run train.py, or gputui run torchrun train.py.")
    first = arguments[0]
    if first.startswith("-") or first.endswith((".py", ".pyw", ".pyz")) or _is_script(Path(first)):
        return [_python(), *arguments]
    return arguments


def _is_script(path: Path) -> bool:
    """Whether Python has to run `path`: a file that is not executable, or a folder with a __main__.py."""
    return (path.is_file() and not os.access(path, os.X_OK)) or (path / "__main__.py").is_file()


def _python() -> str:
    if importlib.util.find_spec("torch") is not None:
        return sys.executable
    return shutil.which("python") or shutil.which("python3") or sys.executable


def _environment() -> dict[str, str]:
    variables = ProcFs().variables(os.getpid())  # os.environ also has what Python sets in the C locale
    others = variables.get("PYTHONPATH")
    variables["PYTHONPATH"] = f"{PRELOAD}{os.pathsep}{others}" if others else str(PRELOAD)
    return variables


def _become(command: list[str], environment: dict[str, str]) -> NoReturn:
    program = shutil.which(command[0])
    if program is None:
        raise _not_found(command[0])
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)  # the program would inherit an ignored signal
    try:
        os.execve(program, command, environment)
    except OSError as error:
        cause = f"{command[0]} cannot be run: {error.strerror}."
        remedy = f"If it is a Python script, put python in front: gputui run python {shlex.quote(command[0])}."
        raise NotRunnableError(cause, remedy, 126) from error


def _not_found(name: str) -> NotRunnableError:
    if Path(name).is_dir():
        return NotRunnableError(
            f"{name} cannot be run: it is a folder without a __main__.py.",
            f"Name a file, such as {Path(name, 'train.py')}.",
            126,
        )
    if Path(name).exists():
        return NotRunnableError(f"{name} cannot be run: it is not executable.", f"Try chmod +x {name}.", 126)
    cause = f"There is neither a file nor a command {name!r}."
    return NotRunnableError(
        cause, "Name a script (train.py), a module (-m package.train) or a command in the PATH.", 127
    )
