"""gputui, run as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.attach.children import LIMIT_S, REPOSITORY

WAITING = "gputui: Waiting for process "
"""Said where the probe does not come at once, as on a busy machine."""


def attach(*arguments: str, environment: dict[str, str] | None = None) -> tuple[int, str, str]:
    """The exit status, standard output and standard error of `gputui attach`, without words of what it waits for."""
    status, output, errors = gputui("attach", *arguments, environment=environment)
    return status, output, "".join(line for line in errors.splitlines(keepends=True) if WAITING not in line)


def gputui(*arguments: str, environment: dict[str, str] | None = None) -> tuple[int, str, str]:
    """The exit status, standard output and standard error of a command."""
    done = subprocess.run(
        [sys.executable, "-m", "gputui", *arguments],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **(environment or {})},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr
