"""A program that does something each time it is sent a line, and answers with a line of JSON."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from typing import Any

from tests.torches import REPOSITORY


class AskedProgram:
    """It finds gputui, but no probe starts by itself; `variables` lead it to its devices."""

    def __init__(self, python: str, *words: str, variables: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [python, "-W", "ignore", *words],
            env={**os.environ, **variables, "PYTHONPATH": str(REPOSITORY), "GPUTUI_PROBE": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.pid = self._process.pid

    def ask(self, line: str) -> dict[str, Any]:
        """Send a line and return the program's answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def end(self) -> None:
        """End the program."""
        self._process.kill()
        self._process.communicate()
