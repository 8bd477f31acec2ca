"""Runs of a command in which system calls fail."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.conftest import ROOT, FakeGpus
from tests.hanging import HANGS_S
from tests.scale import scaled

PROGRAM = Path(__file__).with_name("program.py")
PLACES = scaled(1, 10)
"""About how many calls of a run fail, one at a time."""
FOR_GOOD = 1_000_000


class Fault(NamedTuple):
    """A kind of call, the error that it ends with, and whether it passes or stays."""

    kind: str
    error: int
    lasting: int = 1


TARGET = "import gputui.probe, sys, time\nprint('ready', flush=True)\nsys.stdin.read()\n"


@contextmanager
def program_with_probe() -> Iterator[int]:
    """The PID of a program with a probe."""
    with subprocess.Popen(
        [sys.executable, "-c", TARGET],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "GPUTUI_PROBE": "1"},
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"ready\n"
        yield program.pid
        program.kill()


class Runs:
    """Runs a command with faults."""

    def __init__(self, gpus: FakeGpus, folder: Path, target: int) -> None:
        self._gpus, self._folder, self._target = gpus, folder, target
        gpus.process(target, {0: 300})

    def faulty(self, command: str, faults: Iterable[Fault]) -> list[list[dict[str, Any]]]:
        """Of each fault the run without it, and runs with it at some of the calls, or at each."""
        result = self._folder / "result.json"
        words = [sys.executable, str(PROGRAM), str(self.request(command, *faults)), str(result)]
        subprocess.run(words, env=self.environment, check=True)
        runs: list[list[dict[str, Any]]] = json.loads(result.read_text())
        return runs

    def request(self, command: str, *faults: Fault, **more: int) -> Path:
        """The file that tells `program.py` what to run."""
        asked = [fault._asdict() for fault in faults]
        path = self._folder / "request.json"
        path.write_text(json.dumps({"arguments": self.words(command), "faults": asked, "places": PLACES, **more}))
        return path

    def words(self, command: str) -> list[str]:
        """The command's arguments."""
        file = str(self._folder / "file")
        return [word.replace("PID", str(self._target)).replace("FILE", file) for word in command.split()]

    def once(self, command: str, *before: str, after: str = "") -> subprocess.CompletedProcess[str]:
        """Run the command, with other words before it; with `after`, words for a shell after it."""
        words = [*before, *(() if sys.executable in before else (sys.executable, "-m", "gputui")), *self.words(command)]
        if after:
            words = ["bash", "-c", f"set -o pipefail; {shlex.join(words)} {after}"]
        environment = {**self._gpus.environment, "PYTHONPATH": str(ROOT)}
        return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=HANGS_S, check=False)

    @property
    def environment(self) -> dict[str, str]:
        """That of a program whose system calls can fail."""
        # by its name, which the loader finds in LD_LIBRARY_PATH: a path with a space would be two libraries
        return {**self._gpus.environment, "PYTHONPATH": str(ROOT), "LD_PRELOAD": "libfaults.so"}
