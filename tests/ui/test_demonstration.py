"""D shows the demonstration and this machine by turns; nothing of one is seen in the other."""

from __future__ import annotations

import pytest

from gputui.model.machine.snapshot import Snapshot
from tests.ui import scenes
from tests.ui.monitor import FakeMachine, Monitor, open_monitor

DEMO = scenes.snapshot(
    scenes.devices(2), (scenes.process(4_200_000, command="python demo.py"),), number=7, is_demo=True
)


async def go(monitor: Monitor, *, is_demo: bool) -> None:
    """Press D, and wait until the other machine is drawn."""
    await monitor.press("D")
    await monitor.until(lambda: monitor.app.snapshot.is_demo is is_demo)
    await monitor.settle()


@pytest.mark.parametrize("keys", [(), ("enter",), ("e",), ("tab", "enter"), ("question_mark",)], ids="-".join)
async def test_d_goes_to_the_demonstration_and_back_from_every_screen(keys):
    async with open_monitor(demo=DEMO) as monitor:
        await monitor.press(*keys)
        await go(monitor, is_demo=True)
        assert monitor.screen == "Overview"
        assert "DEMONSTRATION" in monitor.lines[0]
        assert monitor.pids == [4_200_000]
        assert "WORLD_SIZE" not in monitor.text
        await monitor.press("enter")
        await go(monitor, is_demo=False)
        assert monitor.screen == "Overview"
        assert "DEMONSTRATION" not in monitor.text
        assert 2010 in monitor.pids
        assert "demo.py" not in monitor.text


async def test_filter_order_history_and_pause_stay_where_they_were_set():
    async with open_monitor(demo=DEMO) as monitor:
        await monitor.press("slash", *"vllm", "enter", "o", "p", "p")
        before = monitor.app.history
        await go(monitor, is_demo=True)
        assert monitor.pids == [4_200_000]
        assert "PAUSED" not in monitor.lines[0]
        assert monitor.app.view.order == "device"
        assert not monitor.app.history.knows("process 3000 1763636400.0")
        await monitor.press("slash", *"nothing", "enter")
        await go(monitor, is_demo=False)
        assert monitor.pids == [3000]
        assert "filter: vllm" in monitor.lines[0]
        assert monitor.app.view.order == "pid"
        assert monitor.app.history is before


async def test_a_late_snapshot_of_the_other_machine_is_not_shown():
    async with open_monitor(demo=DEMO) as monitor:
        late: Snapshot = monitor.app.snapshot._replace(number=99)
        await go(monitor, is_demo=True)
        monitor.app._deliver(late)
        await monitor.settle()
        assert monitor.app.snapshot.is_demo
        assert monitor.pids == [4_200_000]


async def test_a_monitor_that_starts_with_the_demonstration_goes_to_this_machine():
    real = FakeMachine(scenes.node())
    async with open_monitor(DEMO) as monitor:
        monitor.app._live = lambda: real
        await go(monitor, is_demo=False)
        assert 2010 in monitor.pids
        assert monitor.machine.is_closed
