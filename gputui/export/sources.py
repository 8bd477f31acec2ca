"""Asks the monitor's sources for a page, each with a deadline: one that is late costs the page only its own part."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from gputui.errors import GputuiError
from gputui.model.machine.device import DeviceLook
from gputui.model.machine.process import ProcessLook
from gputui.sources.machine import NAMES_WITHIN_S, DeviceThread
from gputui.sources.nvml import NvmlSource
from gputui.sources.probe.elsewhere import ProbesElsewhere
from gputui.sources.probe.listing import list_probes
from gputui.sources.probe.told import ProbeInfo
from gputui.sources.probe.turns import Turns
from gputui.sources.processes import ProcessSource
from gputui.sources.procfs import user_name

DEVICES_WITHIN_S = 0.7
PROCESSES_WITHIN_S = 0.5
PROBES_WITHIN_S, SPARE_S = 1.4, 0.1
"""Probes are asked first and meanwhile the other sources, so a page takes no longer than the sum of these two."""
AT_A_TIME = 8
"""How many probes are asked at a time: with a thread for each, the threads would slow each other down."""

A = TypeVar("A")


class Source(str, Enum):
    """A source, by its name in the label `source`."""

    NVML = "nvml"
    PROC = "proc"
    PROBE = "probe"


class Readings(NamedTuple):
    """What the sources said, None for a source that was late. `problems` are sentences about what is missing."""

    devices: DeviceLook | None = None
    processes: ProcessLook | None = None
    probes: tuple[ProbeInfo, ...] = ()
    problems: tuple[tuple[Source, str], ...] = ()


class Sources:
    """Reads all sources on request, from one thread at a time; threads that hang are left behind."""

    def __init__(self) -> None:
        user_name.patience_s = min(user_name.patience_s, NAMES_WITHIN_S)
        self._devices = DeviceThread(NvmlSource)
        self._reader = ProcessSource()
        self._reader.watch_owners()
        self._elsewhere = ProbesElsewhere()
        self._turns = Turns()
        self._processes = OneAtATime[ProcessLook]("proc")
        self._probes, self._contained = (OneAtATime[tuple[ProbeInfo, ...]](name) for name in ("probes", "contained"))

    def read(self) -> Readings:
        """Ask all sources; takes as long as the slowest one, at most `PROBES_WITHIN_S` and `SPARE_S`."""
        deadline = time.monotonic() + PROBES_WITHIN_S
        problems: list[tuple[Source, str]] = []
        probes = [self._probes.begin(self._list_probes)]
        self._devices.request(frozenset())
        devices, age_s = self._devices.result(DEVICES_WITHIN_S)
        if age_s:
            problems.append((Source.NVML, f"The NVIDIA driver has not answered for {age_s:.1f} s."))
        elif devices.problem:
            problems.append((Source.NVML, devices.problem))
        look = devices if not age_s else None
        if look is not None:
            pids, left_s = {use.pid for use in look.uses if use.pid}, max(0.0, deadline - time.monotonic())
            probes.append(self._contained.begin(lambda: self._elsewhere.read(pids, left_s, AT_A_TIME)))
        processes = self._read_processes(look, problems)
        answers = tuple(probe for answer in probes for probe in _told(answer, deadline + SPARE_S, problems))
        return Readings(look, processes, answers, tuple(problems))

    def close(self) -> None:
        """End the thread of the driver without waiting for it."""
        self._devices.close()

    def _list_probes(self) -> tuple[ProbeInfo, ...]:
        return list_probes(within_s=PROBES_WITHIN_S, at_a_time=AT_A_TIME, turns=self._turns)

    def _read_processes(self, look: DeviceLook | None, problems: list[tuple[Source, str]]) -> ProcessLook | None:
        if look is None:
            return None  # the driver alone knows which processes they are
        read = self._processes.begin(lambda: self._reader.read(look))
        processes = read.result(time.monotonic() + PROCESSES_WITHIN_S)
        if processes is None:
            problems.append((Source.PROC, f"/proc has not answered for {PROCESSES_WITHIN_S:g} s."))
        elif processes.problem:
            problems.append((Source.PROC, processes.problem))
        return processes


def _told(
    answer: Answer[tuple[ProbeInfo, ...]], deadline: float, problems: list[tuple[Source, str]]
) -> tuple[ProbeInfo, ...]:
    """What probes said; adds a sentence to `problems` for each that did not answer."""
    try:
        probes = answer.result(deadline)
    except GputuiError as error:
        problems.append((Source.PROBE, str(error)))
        return ()
    if probes is None:
        problems.append((Source.PROBE, "The folders of the probes' sockets do not answer."))
        return ()
    problems += [(Source.PROBE, probe.problem) for probe in probes if probe.problem]
    return probes


class Answer(Generic[A]):
    """The result of work in another thread, once the work is done."""

    def __init__(self) -> None:
        self.is_there = threading.Event()
        self._value: A | None = None
        self._error: BaseException | None = None

    def work(self, work: Callable[[], A]) -> None:
        """Do the work, in the thread that calls this."""
        try:
            self._value = work()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that wants the answer
            self._error = error
        self.is_there.set()

    def result(self, deadline: float) -> A | None:
        """The result, None if it is not there at `deadline` (monotonic clock); raises what the work raised."""
        self.is_there.wait(max(0.0, deadline - time.monotonic()))
        if self._error is not None:
            raise self._error
        return self._value


class OneAtATime(Generic[A]):
    """Runs work that can hang, in a thread for each piece; while one piece hangs, no other begins."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last: Answer[A] | None = None

    def begin(self, work: Callable[[], A]) -> Answer[A]:
        """Begin the work; where the piece before has not ended, it does not begin, and the answer stays empty."""
        answer: Answer[A] = Answer()
        if self._last is not None and not self._last.is_there.is_set():
            return answer
        self._last = answer
        threading.Thread(target=answer.work, args=(work,), name=f"gputui-{self._name}", daemon=True).start()
        return answer
