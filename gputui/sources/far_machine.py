"""What machines have in common whose processes get no signal from here: files, other machines, the demonstration."""

from __future__ import annotations

from gputui.model.machine.process import Identity
from gputui.sources.signals import SignalRefused


class FarMachine:
    """A machine whose processes are not on this one."""

    WHY_NO_SIGNAL = "Process {pid} is on another machine: signal {number} was not sent."

    def send_signal(self, identity: Identity, number: int) -> None:
        """Always refused."""
        raise SignalRefused(self.WHY_NO_SIGNAL.format(pid=identity.pid, number=number))

    def close(self) -> None:
        """Does nothing."""
