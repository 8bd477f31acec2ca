"""The demonstration's source: the same three looks and details as the real ones."""

from __future__ import annotations

import time
from collections.abc import Callable

from gputui.model.device import DeviceLook
from gputui.model.host import Host
from gputui.model.process import Identity, ProcessDetails, ProcessLook
from gputui.sources.demo import devices, host, processes
from gputui.sources.demo.scenario import jobs
from gputui.sources.signals import SignalRefused

_LEAD_IN_S = 1094.0
"""How long it has been going on when somebody starts to look: every job is busy at that moment."""


class DemoSource:
    """A training node, made up: what it shows follows from `seed` and the time since it was made alone.

    `clock` gives epoch seconds. The host is called "demo" and no process of it exists.
    """

    def __init__(self, seed: int = 0, clock: Callable[[], float] = time.time) -> None:
        self._seed, self._clock = seed, clock
        self._begin = clock() - _LEAD_IN_S

    def read(self) -> tuple[DeviceLook, Host, ProcessLook]:
        """All of it at this moment."""
        time_s = self._clock() - self._begin
        running = jobs(self._seed, time_s)
        look = devices.look(self._seed, time_s, running)
        return look, host.look(self._seed, time_s, running), processes.look(self._begin, time_s, running, look)

    def details(self, identity: Identity) -> ProcessDetails:
        """All about one process of the demonstration."""
        time_s = self._clock() - self._begin
        return processes.details(self._begin, time_s, jobs(self._seed, time_s), identity)

    def send_signal(self, identity: Identity, number: int) -> None:
        """Always refused: there is nobody to send it to."""
        cause = f"This is a demonstration: there is no process {identity.pid}, and signal {number} was not sent."
        raise SignalRefused(cause)
