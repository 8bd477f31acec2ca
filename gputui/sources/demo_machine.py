"""The demonstration, as a machine that the sampler looks at."""

from __future__ import annotations

import time
from collections.abc import Callable

from gputui.model.machine.snapshot import Attention, Snapshot
from gputui.sources.demo import devices, host, processes, scenario
from gputui.sources.far_machine import FarMachine

_LEAD_IN_S = 1094.0
"""How long the simulation has been running when the demonstration starts: every job is busy then."""


class DemoMachine(FarMachine):
    """A simulated training node, which depends only on the time since this machine was created.

    `clock` gives epoch seconds. The host is called "demo", none of its processes exists, and nothing on this machine
    is changed.
    """

    WHY_NO_SIGNAL = "This is a demonstration: there is no process {pid}, and signal {number} was not sent."

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._begin = clock() - _LEAD_IN_S
        self._number = 0
        self._example, self._beside = "", list[scenario.Job]()

    @property
    def examples(self) -> tuple[str, ...]:
        """The titles of the recorded programs."""
        from gputui.sources.files.recording.shipped import EXAMPLES

        return tuple(example.title for example in EXAMPLES)

    def show_example(self, title: str) -> int:
        """From the next look on, show a recorded program as a process, in place of the last one; returns its PID."""
        from gputui.sources.files.recording.shipped import opening

        number = self.examples.index(title)
        job = scenario.example(number, *opening(number))
        self._example, self._beside = title, [job]
        return job.pid

    def look(self, attention: Attention, interval_s: float) -> Snapshot:
        """The devices, the host and the processes now, and the details of the process that is on screen."""
        now, begin, looked_for = self._clock(), self._begin, attention.process
        time_s = now - begin
        jobs = [*scenario.jobs(time_s), *self._beside]
        look = devices.look(time_s, jobs)
        self._number += 1
        return Snapshot(
            time=now,
            number=self._number,
            interval_s=interval_s,
            is_demo=True,
            example=self._example,
            devices=look,
            host=host.look(time_s, jobs),
            processes=processes.look(begin, time_s, jobs, look),
            details=processes.details(begin, time_s, jobs, looked_for) if looked_for else None,
        )
