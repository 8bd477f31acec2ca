"""Remembers the programs into which the user never wants to put a probe: a file with one program on each line."""

from __future__ import annotations

import os
import re

from gputui.errors import GputuiError
from gputui.own_place import is_own_place
from gputui.regular_files import small_content
from gputui.sources.procfs import ProcFs

_MOST_BYTES = 1 << 20
_INTERPRETER = re.compile(r"(python|pypy)[\d.]*t?$")


def path() -> str:
    """`gputui/never-attach` in $XDG_STATE_HOME (default: ~/.local/state)."""
    base = os.environ.get("XDG_STATE_HOME", "")
    folder = base if base.startswith("/") else os.path.expanduser("~/.local/state")
    return f"{folder}/gputui/never-attach"


def program_of(pid: int) -> str:
    """What a process runs: the path of a Python script, "-m module", "-c code", or its first word; "" if unknown."""
    try:
        words = ProcFs().arguments(pid)
        folder = ProcFs().link(pid, "cwd")
    except OSError:
        return ""
    if not words or not _INTERPRETER.search(os.path.basename(words[0])):
        return words[0] if words else ""
    rest = iter(words[1:])
    for word in rest:
        if word == "-m":
            return f"-m {next(rest, '')}"
        if word == "-c":
            return f"-c {next(rest, '')}".splitlines()[0]
        if word in ("-W", "-X"):
            next(rest, None)
        elif not word.startswith("-"):
            return os.path.normpath(os.path.join(folder, word))
    return words[0]


def check(pid: int, program: str) -> None:
    """Raise GputuiError if the user has answered "never" for the program of a process."""
    try:
        programs = small_content(path(), _MOST_BYTES).decode(errors="surrogateescape").splitlines()
    except FileNotFoundError:
        return
    except OSError as error:
        cause = f"{path()} cannot be read: {error.strerror}."
        raise GputuiError(cause) from error
    if program and program in programs:
        cause = f'Process {pid} has no probe, and you have answered "never" for {program}.'
        raise GputuiError(cause, f"To allow it again, remove its line from {path()}.")


def refuse(program: str) -> None:
    """Remember the answer "never" for a program."""
    if not is_own_place():
        cause = f"The answer cannot be kept: {path()} is in a folder of another user."
        raise GputuiError(cause, "Set HOME, or XDG_STATE_HOME, to a folder of yours.")
    try:
        os.makedirs(os.path.dirname(path()), mode=0o700, exist_ok=True)
        with open(path(), "a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"{program}\n")
    except OSError as error:
        cause = f"The answer cannot be kept: {path()}: {error.strerror}."
        raise GputuiError(cause) from error
