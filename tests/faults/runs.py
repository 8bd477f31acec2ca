"""Runs of a command in which system calls fail."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.conftest import ROOT, FakeGpus
from tests.hanging import HANGS_S
from tests.scale import scaled

PROGRAM = Path(__file__).with_name("program.py")
PLACES = scaled(2, 20)
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
        env={**os.environ, "PYTHONPATH": str(ROOT)},
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

    def of(self, command: str, fault: Fault, places: list[int]) -> list[dict[str, Any]]:
        """What became of the command for each number of the call that fails; 0 for none."""
        request = self._folder / "request.json"
        content = {**fault._asdict(), "arguments": self.words(command), "places": places, "within_s": HANGS_S}
        request.write_text(json.dumps(content))
        result = self._folder / "result.json"
        subprocess.run([sys.executable, str(PROGRAM), str(request), str(result)], env=self.environment, check=True)
        runs: list[dict[str, Any]] = json.loads(result.read_text())
        return runs

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

    def faulty(self, command: str, fault: Fault) -> list[dict[str, Any]]:
        """Runs with a fault at some of the calls, or at each; none where the command makes no such call."""
        (well,) = self.of(command, fault, [0])
        last = well["count"]
        assert well["errors"] == "" or well["status"], well
        places = range(1, last + 1, max(1, last // PLACES))
        return self.of(command, fault, list(places)) if last else []
