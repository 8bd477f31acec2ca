"""A machine that is not read, for the status line of files and of processes on another machine."""

from __future__ import annotations

from collections.abc import Callable

from gputui.model.machine.host import Host
from gputui.model.machine.snapshot import Attention, Snapshot
from gputui.sources.far_machine import FarMachine


class NamedMachine(FarMachine):
    """A machine of which only the name is known, "" if not even that, and the time that `clock` gives."""

    WHY_NO_SIGNAL = "This machine is not read: signal {number} was not sent to process {pid}."

    def __init__(self, clock: Callable[[], float], hostname: str = "") -> None:
        self._clock = clock
        self._hostname = hostname
        self._number = 0

    def look(self, attention: Attention, interval_s: float) -> Snapshot:  # noqa: ARG002 - as for a live machine
        """A snapshot with nothing but the time and the name."""
        self._number += 1
        host = Host(hostname=self._hostname)
        return Snapshot(time=self._clock(), number=self._number, interval_s=interval_s, host=host)
