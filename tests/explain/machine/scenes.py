"""A machine that is watched for some time, and its findings."""

from __future__ import annotations

from gputui.explain.machine.record import record
from gputui.explain.machine.watch import Watch
from gputui.model.history import History
from gputui.model.machine.finding import MachineFinding
from gputui.model.machine.snapshot import Snapshot
from tests.ui import scenes


class Machine:
    """`pass_time` has the machine show the same snapshot for so long."""

    def __init__(self) -> None:
        self.history, self.watch = History(), Watch()
        self.now = scenes.NOW

    def pass_time(self, seconds: float, snapshot: Snapshot, step_s: float = 2.0) -> tuple[MachineFinding, ...]:
        """The findings after `seconds`."""
        end = self.now + seconds
        while self.now < end:
            self.now += step_s
            taken = snapshot._replace(time=self.now)
            record(self.history, taken)
            self.watch.take(taken, self.history)
        return self.watch.findings

    @property
    def kinds(self) -> list[str]:
        """The kinds of the findings now."""
        return [finding.kind for finding in self.watch.findings]
