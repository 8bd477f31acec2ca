"""The demonstration's source, with the looks and details of the real sources."""

from __future__ import annotations

import time
from collections.abc import Callable

from gputui.model.machine.device import DeviceLook
from gputui.model.machine.host import Host
from gputui.model.machine.process import Identity, ProcessDetails, ProcessLook
from gputui.sources.demo import devices, host, processes
from gputui.sources.demo.scenario import Job, jobs
from gputui.sources.signals import SignalRefused

_LEAD_IN_S = 1094.0
"""How long the simulation has been running when the demonstration starts: every job is busy then."""


class DemoSource:
    """A simulated training node, which depends only on `seed` and the time since this source was created.

    `clock` gives epoch seconds. The host is called "demo", and none of its processes exists.
    """

    def __init__(self, seed: int = 0, clock: Callable[[], float] = time.time) -> None:
        self._seed, self._clock = seed, clock
        self._begin = clock() - _LEAD_IN_S
        self.example: Job | None = None
        """The recorded program that runs beside the jobs."""

    def read(self) -> tuple[DeviceLook, Host, ProcessLook]:
        """The devices, the host and the processes now."""
        time_s = self._clock() - self._begin
        running = self._jobs(time_s)
        look = devices.look(self._seed, time_s, running)
        return look, host.look(self._seed, time_s, running), processes.look(self._begin, time_s, running, look)

    def details(self, identity: Identity) -> ProcessDetails:
        """Everything about one process of the demonstration."""
        time_s = self._clock() - self._begin
        return processes.details(self._begin, time_s, self._jobs(time_s), identity)

    def _jobs(self, time_s: float) -> list[Job]:
        return [*jobs(self._seed, time_s), *([self.example] if self.example else [])]

    def send_signal(self, identity: Identity, number: int) -> None:
        """Always refused: the processes do not exist."""
        cause = f"This is a demonstration: there is no process {identity.pid}, and signal {number} was not sent."
        raise SignalRefused(cause)
