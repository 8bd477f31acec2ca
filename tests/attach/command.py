"""gputui, run as a user runs it, but forked after its imports, which take most of its time."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryFile

from tests.attach.children import LIMIT_S, REPOSITORY
from tests.forkserver import COMMAND, Forked

IMPORTED = ("gputui.cli", "gputui.commands.attach.attach", "gputui.commands.printed.attach", "psutil", "pynvml")
WAITING = "gputui: Waiting for process "
"""Said where the probe does not come at once, as on a busy machine."""


def attach(*arguments: str, environment: dict[str, str] | None = None) -> tuple[int, str, str]:
    """The exit status, standard output and standard error of `gputui attach`, without words of what it waits for."""
    status, output, errors = gputui("attach", *arguments, environment=environment)
    return status, output, "".join(line for line in errors.splitlines(keepends=True) if WAITING not in line)


def gputui(*arguments: str, environment: dict[str, str] | None = None) -> tuple[int, str, str]:
    """The exit status, standard output and standard error of a command."""
    variables = {**os.environ, "PYTHONPATH": str(REPOSITORY), **(environment or {})}
    with TemporaryFile() as output, TemporaryFile() as errors:
        words = [str(COMMAND), *arguments]
        process = Forked(sys.executable, words, IMPORTED, env=variables, cwd=Path.cwd(), stdout=output, stderr=errors)
        process.stdin.close()
        process.stdout.close()
        status = process.wait(LIMIT_S)
        output.seek(0)
        errors.seek(0)
        return status, output.read().decode(), errors.read().decode()
