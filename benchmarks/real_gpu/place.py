"""Where the programs of the benchmark run: on the first GPU of this machine, or on a fake one."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.asked_program import AskedProgram, started, variables_of
from gputui.environment import PROBE
from tests.fakegpu.lab import Lab
from tests.forkserver import Forked
from tests.torches import FORKED_AFTER, REPOSITORY, fake_cuda, has_cuda_build, run_program, torch_pythons

PROGRAMS = Path(__file__).resolve().parent.parent / "programs"
FACTS = PROGRAMS / "device_facts.py"
TRAINING = PROGRAMS / "gpt_steps.py"
PRELOAD = REPOSITORY / "gputui" / "probe" / "preload"
KERNEL_US = "150"
FAKE_GIB = 79.65
HANGS_S = 300.0
"""What takes so long will not come: the last part may begin after fifteen minutes, and all has to end within twenty."""


class EndedError(Exception):
    """A program has ended before its first answer."""


@dataclass(frozen=True)
class Running:
    """A training that has said what one of its steps needs."""

    pid: int
    needs_bytes: int


@dataclass(frozen=True)
class Place:
    """`variables` are those of a program's environment that lead to the GPU, `python` has PyTorch.

    `is_forked`: programs are forked where they can be. `facts` are what `programs/device_facts.py` says.
    """

    python: str
    folder: Path
    is_fake: bool
    is_forked: bool
    variables: Mapping[str, str]
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def uuid(self) -> str:
        """The UUID of PyTorch's first device, as NVML has it; "" before PyTorch 2.5."""
        uuid = str(self.facts.get("uuid", ""))
        return f"GPU-{uuid}" if uuid.strip("0-") else ""

    def bound(self, kernel_us: str = KERNEL_US) -> dict[str, str]:
        """The environment of programs that the GPU bounds: on a fake one a kernel takes that long."""
        return {**self.variables, **({"FAKEGPU_KERNEL_US": kernel_us} if self.is_fake else {})}

    def with_probe(self, **own: str) -> dict[str, str]:
        """The environment of a program that a probe may enter, whatever that of this process says."""
        return {name: value for name, value in os.environ.items() if name != PROBE} | {**self.variables, **own}

    def run(self, program: Path, *arguments: str, **variables: str) -> dict[str, Any]:
        """Run a program to its end, and return the JSON of its last line."""
        return run_program(self.python, program, *arguments, environment={**self.variables, **variables})

    def asked(self, *words: str) -> AskedProgram:
        """A program that answers lines, without a probe, and bound by the GPU."""
        if not self.is_forked:
            return started(self.python, *words, variables=self.bound())
        return AskedProgram(self._forked(words, variables_of(self.bound())))

    def _forked(self, words: Sequence[str], variables: Mapping[str, str]) -> Forked:
        with Path(os.devnull).open("wb") as errors:
            return Forked(self.python, [*words], FORKED_AFTER, env=variables, cwd=REPOSITORY, stderr=errors)

    @contextmanager
    def training(self, *words: str, kernel_us: str = KERNEL_US, has_probe: bool = False) -> Iterator[Running]:
        """A program that goes on, from the line on which it says what a step needs; raises EndedError."""
        paths = [str(PRELOAD), str(REPOSITORY)] if has_probe else []
        variables = self.with_probe(**self.bound(kernel_us), PYTHONPATH=":".join(paths))
        command = ["setpriv", "--pdeathsig", "KILL", self.python, "-W", "ignore", *words]
        process: subprocess.Popen[bytes] | Forked
        if self.is_forked:
            process = self._forked(words, variables)
        else:
            process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, cwd=self.folder)
        try:
            assert process.stdout is not None
            needs = next((line for line in process.stdout if line.strip().isdigit()), None)
            if needs is None:
                message = "The training has ended before its first steps were over; its error is above."
                raise EndedError(message)
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield Running(process.pid, int(needs))
        finally:
            process.kill()
            process.wait()


@contextmanager
def a_place(*, is_fake: bool, is_forked: bool = False) -> Iterator[Place]:
    """The place, with a folder for this run; raises EndedError where the Python has no CUDA build.

    Where there is no GPU, the first program fails, with an AssertionError that has its words.
    """
    python = torch_pythons()[0]
    if not has_cuda_build(python):
        message = "This needs a CUDA build of PyTorch: GPUTUI_TEST_TORCH names the Python that has it."
        raise EndedError(message)
    with tempfile.TemporaryDirectory(prefix="gputui-real-gpu-") as name:
        folder = Path(name)
        variables: Mapping[str, str] = _fake(python, folder) if is_fake else {}
        place = Place(python, folder, is_fake, is_forked, variables)
        place.facts.update(place.run(FACTS))
        yield place


def _fake(python: str, folder: Path) -> Mapping[str, str]:
    """A busy fake GPU as slow and as new as a real one, which NVML shows in this process, too."""
    variables = fake_cuda(python, folder, gpus=1)
    state = variables["FAKEGPU_STATE"]
    Lab(state).up(1, memory_gib=FAKE_GIB, busy=True, gpm=True, real_delays=True)
    library = ctypes.CDLL(f"{variables['LD_LIBRARY_PATH'].split(':')[0]}/libnvidia-ml.so.1")
    library.fg_use(state.encode())
    return variables
