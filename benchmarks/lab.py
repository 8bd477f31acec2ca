"""The same fake machine for everybody who is compared: 8 animated devices and 24 processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

FAKEGPU = Path(__file__).resolve().parent.parent / "tests" / "fakegpu" / "fakegpu"


@dataclass(frozen=True, slots=True)
class Lab:
    """`environment` shows the fake devices to a program; `pids` are real processes, said to hold memory on them."""

    environment: dict[str, str]
    pids: tuple[int, ...]


@contextmanager
def lab(devices: int = 8, processes: int = 24, fakegpu: Path = FAKEGPU) -> Iterator[Lab]:
    """A machine with so many devices and processes, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="gputui-benchmark-") as folder:
        environment = {
            **os.environ,
            "FAKEGPU_STATE": f"{folder}/state",
            "LD_LIBRARY_PATH": f"{folder}/lib",
            "XDG_CONFIG_HOME": folder,  # nobody's own settings
            "COLORTERM": "truecolor",
            "LC_ALL": "C.UTF-8",
        }

        def run(*arguments: str) -> None:
            subprocess.run(
                [sys.executable, str(fakegpu), *arguments], env=environment, check=True, stdout=subprocess.DEVNULL
            )

        run("up", "--gpus", str(devices), "--busy", "--animate", "--lib", f"{folder}/lib")
        # Real processes, because some monitors leave out those that the host does not know.
        sleepers = [subprocess.Popen(["sleep", "infinity"]) for _ in range(processes)]
        try:
            for number, sleeper in enumerate(sleepers):
                run("proc", str(sleeper.pid), f"{number % devices}={2000 + 100 * number}")
            yield Lab(environment, tuple(sleeper.pid for sleeper in sleepers))
        finally:
            for sleeper in sleepers:
                sleeper.terminate()
                sleeper.wait()
