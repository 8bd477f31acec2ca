"""The monitor under test: the real application on a fake machine whose snapshots the test sets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from gputui.errors import GputuiError
from gputui.model.machine.process import Identity
from gputui.model.machine.snapshot import Attention, Snapshot
from gputui.settings import Settings
from gputui.ui.app import GputuiApp
from gputui.ui.widgets.device_list import DeviceList
from gputui.ui.widgets.process_table import ProcessTable
from tests.ui import scenes
from tests.ui.running import Running

NEVER_S = 3600.0
"""An interval so long that the sampler looks only on request."""

Size = tuple[int, int]


class FakeMachine:
    """Returns `snapshot` until the test sets another; records the calls it gets."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.looks = 0
        self.attention = Attention()
        self.sent: list[tuple[Identity, int]] = []
        self.refusal = ""
        self.is_closed = False
        self.details = scenes.details

    def look(self, attention: Attention, interval_s: float) -> Snapshot:
        """The snapshot set by the test, with the details of the process in `attention`."""
        self.looks += 1
        self.attention = attention
        details = self.details(attention.process) if attention.process else None
        return self.snapshot._replace(interval_s=1.0 if interval_s == NEVER_S else interval_s, details=details)

    def send_signal(self, identity: Identity, number: int) -> None:
        """Record the signal, or raise `refusal`."""
        if self.refusal:
            raise GputuiError(self.refusal)
        self.sent.append((identity, number))

    def close(self) -> None:
        """Record the call."""
        self.is_closed = True


class Monitor(Running):
    """The running application and its machine, with the actions and queries that tests need."""

    def __init__(self, app: GputuiApp, machine: FakeMachine, pilot: Pilot[int]) -> None:
        super().__init__(app, pilot)
        self.machine = machine

    async def see(self, snapshot: Snapshot) -> None:
        """Make the sampler take `snapshot` and wait until it is drawn."""
        self.machine.snapshot = snapshot
        self.app._sampler.refresh()
        await self.until(lambda: self.app.snapshot.number == snapshot.number)
        await self.settle()

    @property
    def table(self) -> ProcessTable:
        """The process table of the overview."""
        return self.app.screen_stack[0 if len(self.app.screen_stack) == 1 else 1].query_one(ProcessTable)

    @property
    def devices(self) -> DeviceList:
        """The device list of the overview."""
        return self.table.screen.query_one(DeviceList)

    @property
    def pids(self) -> list[int | None]:
        """The PIDs of the table, from top to bottom; None for rows without one."""
        return [row.process.pid if row.process else None for row in self.table.entries]

    @property
    def pid(self) -> int | None:
        """The PID under the cursor."""
        row = self.table.current
        return row.process.pid if row and row.process else None

    @property
    def screen(self) -> str:
        """The class name of the screen on top."""
        return type(self.app.screen).__name__


@asynccontextmanager
async def open_monitor(
    snapshot: Snapshot | None = None,
    size: Size = (120, 40),
    demo: Snapshot | None = None,
    machine: FakeMachine | None = None,
    **settings,
) -> AsyncIterator[Monitor]:
    """The monitor on a terminal of `size`, after its first snapshot; `settings` are those of the settings file.

    `machine` replaces the fake machine with one that makes its own snapshots.
    """
    scene = scenes.node() if snapshot is None else snapshot
    machine = machine or FakeMachine(scene)
    other = FakeMachine(demo or scenes.node(100, is_demo=True))
    app = GputuiApp(Settings(**{"interval_s": NEVER_S, **settings}), machine, lambda: other)
    async with app.run_test(size=size, notifications=True) as pilot:
        monitor = Monitor(app, machine, pilot)
        await monitor.until(lambda: app.snapshot.number == machine.snapshot.number)
        await monitor.settle()
        yield monitor
    app._sampler._thread.join()  # it may be in a call of the library, which the next test gives other devices
