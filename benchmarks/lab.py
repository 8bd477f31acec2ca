"""One fake machine for all compared programs: animated devices with real processes on them."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fakegpu.lab import Lab as FakeGpus
from tests.fakegpu.lab import build


@dataclass(frozen=True, slots=True)
class Lab:
    """`environment` makes a program see the fake devices; `pids` are real processes listed as using them."""

    environment: dict[str, str]
    pids: tuple[int, ...]
    gpus: FakeGpus


@contextmanager
def lab(devices: int = 8, processes: int = 24, uses: int = 1, *, real_delays: bool = False) -> Iterator[Lab]:
    """A temporary machine with these numbers of devices and processes, each process on `uses` devices.

    `real_delays` makes NVML's slow calls as slow as on a real GPU (20 ms for a PCIe rate).
    """
    with tempfile.TemporaryDirectory(prefix="gputui-benchmark-") as folder:
        gpus = FakeGpus(f"{folder}/state", is_new=True)
        gpus.up(devices, busy=True, animate=True, gpm=True, real_delays=real_delays)
        build(Path(folder))
        # Real processes, because some monitors omit those that the host does not know.
        environment = {**os.environ, "SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0"}
        sleepers = [subprocess.Popen(["sleep", "infinity"], env=environment) for _ in range(processes)]
        try:
            for number, sleeper in enumerate(sleepers):
                held = {(number + other) % devices: 2000 + 100 * (number % 24) for other in range(uses)}
                gpus.process(sleeper.pid, held)
            yield Lab(_environment(folder, gpus), tuple(sleeper.pid for sleeper in sleepers), gpus)
        finally:
            for sleeper in sleepers:
                sleeper.terminate()
                sleeper.wait()


def _environment(folder: str, gpus: FakeGpus) -> dict[str, str]:
    environment = {
        **os.environ,
        **gpus.environment_of(Path(folder)),
        "XDG_CONFIG_HOME": folder,  # excludes the user's own settings
        "COLORTERM": "truecolor",
        "LC_ALL": "C.UTF-8",
        "PYTHONPYCACHEPREFIX": f"{folder}/bytecode",  # compiled once, as after an installation
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment
