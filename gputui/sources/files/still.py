"""What stands on the screens where a file holds a single moment: a black box, or a snapshot of PyTorch's."""

from __future__ import annotations

from collections.abc import Callable

from gputui.model.attached.moment import TargetMoment
from gputui.model.machine.host import Host
from gputui.model.machine.process import Identity
from gputui.model.machine.snapshot import Attention, Snapshot
from gputui.sources.signals import SignalRefused


class StillFeed:
    """Delivers one moment, once; requests do nothing, as there is no program to ask."""

    def __init__(self, moment: TargetMoment, listener: Callable[[TargetMoment], None]) -> None:
        self._moment = moment
        self._listener = listener

    @property
    def pid(self) -> int:
        """The PID of the process that the moment is of, 0 where the file does not say."""
        return self._moment.pid

    def start(self) -> None:
        """Deliver the moment."""
        self._listener(self._moment)

    def stop(self) -> None:
        """Nothing to close."""

    def look(self, how: str = "walk") -> None:
        """Does nothing: the program cannot be looked at any more."""

    def mark(self, label: str) -> None:
        """Does nothing: there is one moment."""


class FileMachine:
    """The machine that the status line shows for a file: its host, "" if unknown, and the time that `clock` gives."""

    def __init__(self, clock: Callable[[], float], hostname: str = "") -> None:
        self._clock = clock
        self._hostname = hostname
        self._number = 0

    def look(self, attention: Attention, interval_s: float) -> Snapshot:  # noqa: ARG002 - as for a live machine
        """The file's time on its host; nothing else is in the file."""
        self._number += 1
        host = Host(hostname=self._hostname)
        return Snapshot(time=self._clock(), number=self._number, interval_s=interval_s, host=host)

    def send_signal(self, identity: Identity, number: int) -> None:
        """Always refused: there is no process to send it to."""
        cause = f"This is a file: signal {number} was not sent to process {identity.pid}."
        raise SignalRefused(cause)

    def close(self) -> None:
        """Nothing to release."""
