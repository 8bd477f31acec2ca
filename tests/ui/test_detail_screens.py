"""The device screen and the process screen, including when their device or process disappears."""

from __future__ import annotations

from gputui.model.device import Lost
from gputui.model.process import Identity
from gputui.ui.drawing.process_page import ENVIRONMENT
from gputui.ui.screens.process import ProcessScreen
from tests.ui import scenes
from tests.ui.monitor import open_monitor


class TestDevice:
    async def test_opens_with_enter_and_closes_with_escape(self):
        async with open_monitor() as monitor:
            await monitor.press("tab", "down", "enter")
            assert "Device 1  NVIDIA H100 80GB HBM3" in monitor.lines[1]
            await monitor.press("escape")
            assert monitor.screen == "Overview"
            assert monitor.devices.has_focus

    async def test_left_and_right_go_to_the_neighbouring_devices(self):
        async with open_monitor() as monitor:
            await monitor.press("tab", "enter")
            for keys, shown in (
                (["right"], "Device 1"),
                (["l", "l", "h"], "Device 2"),
                (["left", "left", "left"], "Device 7"),  # left of the first device is the last
                (["right"], "Device 0"),
            ):
                await monitor.press(*keys)
                assert shown in monitor.lines[1], keys

    async def test_z_cycles_through_the_zooms_of_the_graphs(self):
        async with open_monitor() as monitor:
            await monitor.press("tab", "enter")
            for seconds in ("10 s", "60 s", "2 s"):
                await monitor.press("z")
                assert f"{seconds} per cell" in monitor.text

    async def test_follows_the_device(self):
        async with open_monitor() as monitor:
            await monitor.press("tab", "enter")
            hot = (scenes.device(0, temperature_c=88), *scenes.devices(8)[1:])
            await monitor.see(scenes.snapshot(hot, number=2))
            assert "88 °C" in monitor.text

    async def test_shows_that_the_device_is_gone(self):
        async with open_monitor() as monitor:
            await monitor.press("tab", "enter")
            await monitor.see(scenes.without_device(scenes.node(), 0, number=2))
            assert "NVML no longer reports this device" in monitor.text
            await monitor.press("right", "z", "down")
            await monitor.press("escape")
            assert [row.device.index for row in monitor.devices.entries] == [1, 2, 3, 4, 5, 6, 7]

    async def test_shows_why_the_device_does_not_answer(self):
        lost = scenes.device(0, lost=Lost("GPU is lost (XID 79)", "it has fallen off the bus."))
        async with open_monitor(scenes.snapshot((lost,))) as monitor:
            await monitor.press("tab", "enter")
            assert "GPU is lost (XID 79)" in monitor.text

    async def test_shows_throttle_reasons_in_words(self):
        async with open_monitor() as monitor:
            await monitor.press("tab", "j", "j", "enter")
            assert "power" in monitor.lines[2]

    async def test_scrolls_to_every_reading_on_a_small_terminal(self):
        async with open_monitor(size=(80, 24)) as monitor:
            await monitor.press("tab", "enter")
            assert "VBIOS" not in monitor.text
            await monitor.press("end")
            assert "VBIOS" in monitor.text
            await monitor.press("home")
            assert "Device 0" in monitor.lines[1]


class TestProcess:
    async def test_opens_with_enter_and_closes_with_escape(self):
        async with open_monitor() as monitor:
            await monitor.press("enter")
            await monitor.until(lambda: "waits for" in monitor.text)
            assert "Process 2010  python train.py" in monitor.lines[1]
            assert "0 of 4, launched by PID 2000" in monitor.text
            await monitor.press("escape")
            assert (monitor.screen, monitor.pid) == ("Overview", 2010)

    async def test_requests_details_of_its_process_only_while_open(self):
        async with open_monitor() as monitor:
            await monitor.press("down", "enter")
            await monitor.until(lambda: monitor.machine.attention.process == Identity(2020, scenes.NOW - 3600.0))
            await monitor.press("escape", "f5")
            await monitor.until(lambda: monitor.machine.attention.process is None)

    async def test_e_on_the_overview_opens_the_environment(self):
        async with open_monitor(size=(80, 24)) as monitor:
            await monitor.press("e")
            await monitor.until(lambda: "WORLD_SIZE=4" in monitor.text)
            assert ENVIRONMENT in monitor.text

    async def test_e_on_the_process_screen_scrolls_to_the_environment(self):
        async with open_monitor(size=(80, 24)) as monitor:
            await monitor.press("enter")
            await monitor.until(lambda: "waits for" in monitor.text or "state" in monitor.text)
            await monitor.until(lambda: monitor.app.snapshot.details is not None)
            await monitor.settle()
            assert "WORLD_SIZE=4" not in monitor.text
            await monitor.press("e")
            assert "WORLD_SIZE=4" in monitor.text

    async def test_z_zooms_the_graphs(self):
        async with open_monitor() as monitor:
            await monitor.press("enter", "z")
            assert "10 s per cell" in monitor.text

    async def test_keeps_the_last_readings_when_the_process_ends(self):
        async with open_monitor() as monitor:
            await monitor.press("enter")
            await monitor.see(scenes.snapshot(scenes.devices(8), number=2))
            assert "Process 2010  python train.py" in monitor.lines[1]
            assert "ended or no longer holds device memory; these are its last readings" in monitor.lines[2]
            await monitor.press("z", "end", "home")
            await monitor.press("escape")
            assert monitor.pids == []

    async def test_keeps_the_details_when_the_process_ends(self):
        async with open_monitor() as monitor:
            await monitor.press("enter")
            await monitor.until(lambda: "waits for" in monitor.text)
            monitor.machine.details = scenes.no_details
            await monitor.see(scenes.snapshot(scenes.devices(8), number=2))
            assert "WORLD_SIZE=4" in monitor.text
            assert "the process has ended" not in monitor.text

    async def test_does_not_wait_for_details_of_a_process_that_has_ended(self):
        async with open_monitor() as monitor:
            monitor.machine.details = scenes.no_details
            ended_process = monitor.table.current.process
            await monitor.see(scenes.snapshot(scenes.devices(8), number=2))
            monitor.app.push_screen(ProcessScreen(ended_process))
            await monitor.until(lambda: "The process ended before the rest was read." in monitor.text)
            assert "Reading the rest" not in monitor.text

    async def test_does_not_wait_for_details_while_paused(self):
        async with open_monitor() as monitor:
            await monitor.press("p", "enter")
            assert "p resumes them and reads the rest." in monitor.text
            await monitor.press("p")
            await monitor.until(lambda: "WORLD_SIZE=4" in monitor.text)

    async def test_does_not_confuse_its_process_with_one_that_reuses_the_pid(self):
        async with open_monitor() as monitor:
            await monitor.press("enter")
            other = scenes.process(2010, identity=Identity(2010, scenes.NOW), command="another program")
            await monitor.see(scenes.snapshot(scenes.devices(8), (other,), number=2))
            assert "has ended" in monitor.lines[2]
            assert "another program" not in monitor.lines[1]

    async def test_shows_what_cannot_be_read_of_a_zombie(self):
        async with open_monitor() as monitor:
            await monitor.press("end", "up", "enter")
            assert "Process 3200" in monitor.lines[1]
            assert "zombie" in monitor.text

    async def test_does_not_open_for_a_row_without_a_process(self):
        async with open_monitor() as monitor:
            await monitor.press("end")
            for key in ("enter", "e"):
                await monitor.press(key)
                assert monitor.screen == "Overview", key

    async def test_a_crowd_below_a_process_is_counted_and_deep_branches_stay_on_the_screen(self):
        async with open_monitor(size=(120, 60)) as monitor:
            details = monitor.machine.details

            def crowded(identity):
                shown = details(identity)
                (entry, *_) = shown.tree
                deep = entry._replace(depth=5000, command="the deepest")
                return shown._replace(tree=(*shown.tree, deep), unshown_descendants=4500)

            monitor.machine.details = crowded
            await monitor.press("enter")
            await monitor.until(lambda: "and 4,500 more processes below it" in monitor.text)
            assert "the deepest" in monitor.text
