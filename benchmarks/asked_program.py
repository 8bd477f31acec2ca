"""A program that does something each time it is sent a line, and answers with a line of JSON."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from typing import Any

from tests.forkserver import Forked
from tests.torches import REPOSITORY


def variables_of(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment in which a program finds gputui, and no probe starts by itself."""
    return {**os.environ, **variables, "PYTHONPATH": str(REPOSITORY), "GPUTUI_PROBE": "0"}


def started(python: str, *words: str, variables: Mapping[str, str]) -> AskedProgram:
    """The program in an interpreter of its own."""
    process = subprocess.Popen(
        [python, "-W", "ignore", *words],
        env=variables_of(variables),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    return AskedProgram(process)


class AskedProgram:
    """Talks to a process."""

    def __init__(self, process: subprocess.Popen[bytes] | Forked) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._input, self._output = process, process.stdin, process.stdout
        self.pid = process.pid

    def ask(self, line: str) -> dict[str, Any]:
        """Send a line and return the program's answer; raises EOFError if the program ends without one."""
        self._input.write(f"{line}\n".encode())
        self._input.flush()
        told = self._output.readline()
        if not told:
            message = f"the program has ended instead of answering to {line!r}"
            raise EOFError(message)
        answer: dict[str, Any] = json.loads(told)
        return answer

    def end(self) -> None:
        """End the program."""
        self._process.kill()
        self._process.wait()
        self._input.close()
        self._output.close()
