"""Moving in the lists of the overview, by keyboard and mouse."""

from __future__ import annotations

from textual.events import MouseScrollDown, MouseScrollUp

from gputui.ui.widgets.device_list import DeviceList
from tests.ui import scenes
from tests.ui.monitor import open_monitor

MANY = scenes.snapshot(scenes.devices(1), tuple(scenes.process(1000 + number) for number in range(100)))
PAGE = 12
"""Number of process rows visible on 80x24 with one device."""


KEYS = [
    ([], 1000, "at first the first"),
    (["down"], 1001, "down"),
    (["j", "j", "k"], 1001, "j and k"),
    (["up"], 1000, "up stops at the first"),
    (["end"], 1099, "End"),
    (["G"], 1099, "G"),
    (["end", "down"], 1099, "down stops at the last"),
    (["end", "home"], 1000, "Home"),
    (["end", "pageup", "pagedown"], 1099, "a page up and down again"),
    (["space", "space"], 1002, "Space tags and goes on"),
]


async def test_keys_move_the_cursor():
    async with open_monitor(MANY, size=(80, 24)) as monitor:
        for keys, pid, what in KEYS:
            await monitor.press(*keys)
            assert monitor.pid == pid, what
            await monitor.press("home")


async def test_page_down_moves_by_the_visible_rows_and_keeps_the_cursor_visible():
    async with open_monitor(MANY, size=(80, 24)) as monitor:
        rows = sum("train.py" in line for line in monitor.lines)
        await monitor.press("pagedown")
        assert monitor.pid == 1000 + rows
        assert any(f" {monitor.pid} " in line for line in monitor.lines)


async def test_the_head_shows_the_cursors_position_in_a_long_list():
    async with open_monitor(MANY, size=(80, 24)) as monitor:
        await monitor.press("down")
        assert any(line.endswith(" 2/100") for line in monitor.lines)


async def test_tab_moves_the_focus_between_processes_and_devices():
    async with open_monitor() as monitor:
        assert monitor.table.has_focus
        await monitor.press("tab")
        assert monitor.devices.has_focus
        await monitor.press("shift+tab")
        assert monitor.table.has_focus


async def test_the_cursor_moves_among_devices():
    async with open_monitor() as monitor:
        await monitor.press("tab", "j", "j")
        assert monitor.devices.current.device.index == 2


async def test_the_cursor_stays_on_its_process_when_the_order_changes_under_it():
    one, two, three = (scenes.process(pid, gib=gib) for pid, gib in ((1, 3.0), (2, 2.0), (3, 1.0)))
    async with open_monitor(scenes.snapshot(scenes.devices(1), (one, two, three)), sort="memory") as monitor:
        await monitor.press("down")
        assert (monitor.pids, monitor.pid) == ([1, 2, 3], 2)
        grown = two._replace(uses=(scenes.use(pid=2, gib=9.0),))
        await monitor.see(scenes.snapshot(scenes.devices(1), (one, grown, three), number=2))
        assert (monitor.pids, monitor.pid) == ([2, 1, 3], 2)


async def test_the_cursor_stays_on_its_row_when_its_process_ends():
    one, two, three = (scenes.process(pid) for pid in (1, 2, 3))
    async with open_monitor(scenes.snapshot(scenes.devices(1), (one, two, three))) as monitor:
        await monitor.press("down")
        await monitor.see(scenes.snapshot(scenes.devices(1), (one, three), number=2))
        assert monitor.pid == 3
        await monitor.see(scenes.snapshot(scenes.devices(1), (one,), number=3))
        assert monitor.pid == 1
        await monitor.see(scenes.snapshot(scenes.devices(1), (), number=4))
        assert monitor.pid is None
        assert "No process to show." in monitor.text


async def test_a_click_moves_the_cursor():
    async with open_monitor() as monitor:
        await monitor.click("vllm")
        assert monitor.pid == 3000


async def test_a_double_click_opens_the_process():
    async with open_monitor() as monitor:
        await monitor.click("vllm", times=2)
        assert monitor.screen == "ProcessScreen"
        assert "Process 3000" in monitor.lines[1]


async def test_a_double_click_opens_the_device():
    async with open_monitor() as monitor:
        await monitor.click("3 H100", times=2)
        assert monitor.screen == "DeviceScreen"
        assert "Device 3" in monitor.lines[1]


async def test_a_click_below_the_last_row_does_nothing():
    async with open_monitor() as monitor:
        await monitor.pilot.click("#processes", offset=(5, 20), times=2)
        await monitor.settle()
        assert (monitor.screen, monitor.pid) == ("Overview", 2010)


async def test_a_click_on_a_title_sorts_and_a_second_one_reverses():
    async with open_monitor() as monitor:
        head = next(y for y, line in enumerate(monitor.lines) if "PID" in line)
        for title, order in (("GPU mem", "memory"), ("User", "user"), ("RSS", "rss")):
            place = (monitor.lines[head].index(title), head)
            for is_reversed in (False, True):
                await monitor.pilot.click(offset=place)
                await monitor.settle()
                assert (monitor.app.view.order, monitor.app.view.is_reversed) == (order, is_reversed)


async def test_the_wheel_moves_through_the_list():
    async with open_monitor(MANY, size=(80, 24)) as monitor:
        await monitor.pilot._post_mouse_events([MouseScrollDown], "#processes", offset=(5, 3))
        await monitor.settle()
        assert monitor.pid == 1003
        await monitor.pilot._post_mouse_events([MouseScrollUp], "#processes", offset=(5, 3))
        await monitor.settle()
        assert monitor.pid == 1000


async def test_a_click_on_a_key_in_the_bottom_line_presses_it():
    async with open_monitor() as monitor:
        await monitor.click(" Sort ")
        assert monitor.screen == "Menu"


async def test_eight_devices_leave_the_expected_process_rows_at_80x24():
    async with open_monitor(size=(80, 24)) as monitor:
        for width in (80, 120, 200):
            await monitor.resize(width, 24)
            assert sum("H100" in line for line in monitor.lines) == 8
            assert sum(" 1h00m " in line or "unattributed" in line or "zombie" in line for line in monitor.lines) >= 8
            assert "Filter" in monitor.lines[-1]
            assert monitor.app.screen.query_one(DeviceList).display
