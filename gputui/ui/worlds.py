"""The monitor's two worlds, this machine and the demonstration: each keeps its readings and the user's choices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from gputui.explain.fleet.watch import FleetWatch
from gputui.explain.machine.record import record
from gputui.explain.machine.watch import Watch
from gputui.model.history import History
from gputui.model.machine.snapshot import NOTHING_YET, Snapshot
from gputui.sampler import Machine
from gputui.ui.drawing.monitor.process_rows import View
from gputui.ui.drawing.monitor.status import MonitorState

if TYPE_CHECKING:
    from gputui.ui.attach.attached import Attached


@runtime_checkable
class Demonstration(Protocol):
    """A machine that plays recorded programs; the real one cannot."""

    @property
    def examples(self) -> tuple[str, ...]:
        """The titles of the programs."""
        ...

    def show_example(self, title: str) -> int:
        """Have this program run from the next look on; returns its PID."""
        ...


@dataclass
class World:
    """A machine with its readings and the user's choices about it; `is_demo` is None until the first snapshot."""

    machine: Machine
    view: View
    state: MonitorState
    history: History = field(default_factory=History)
    watch: Watch = field(default_factory=Watch)
    fleet_watch: FleetWatch = field(default_factory=FleetWatch)
    snapshot: Snapshot = NOTHING_YET
    is_demo: bool | None = None
    attached: Attached = field(init=False)

    def take(self, snapshot: Snapshot) -> bool:
        """Keep the newest snapshot; False for an older one, or one of the other world, taken before the change."""
        if self.is_demo is None:
            self.is_demo = snapshot.is_demo
        if snapshot.is_demo != self.is_demo or snapshot.number < self.snapshot.number:
            return False
        if snapshot.fleet is not None:
            self.snapshot = snapshot._replace(findings=self.fleet_watch.take(snapshot.fleet, snapshot.findings))
            return True
        record(self.history, snapshot)
        self.snapshot = snapshot._replace(findings=self.watch.take(snapshot, self.history))
        return True

    def close(self) -> None:
        """Release the machine, and close the feeds of attached processes, without waiting."""
        self.attached.stop()
        self.machine.close()
