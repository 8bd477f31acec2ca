"""The device screen and the process screen, including when their device or process disappears."""

from __future__ import annotations

import pytest

from gputui.model.machine.device import Lost
from gputui.model.machine.process import Identity, ProcessDetails
from gputui.model.reading import Absent
from gputui.ui.drawing.monitor.process_page import ENVIRONMENT
from gputui.ui.screens.process import ProcessScreen
from tests.ui import scenes
from tests.ui.monitor import Monitor, open_monitor


async def every_word(monitor: Monitor) -> list[str]:
    """All words of a page, scrolled to its end line by line."""
    words: list[str] = []
    for _ in range(120):
        words += [word for line in monitor.lines[1:-1] for word in line.split()]
        await monitor.press("down")
    return words


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
            assert "power" in monitor.lines[3]

    async def test_lists_its_processes(self):
        async with open_monitor() as monitor:
            await monitor.press("tab", "enter")
            rows = [line for line in monitor.lines if "train.py" in line]
            assert len(rows) == 1
            assert "2010" in rows[0]

    async def test_shows_and_copies_the_whole_uuid(self):
        async with open_monitor() as monitor:
            await monitor.press("tab", "enter")
            assert monitor.lines[2].strip() == "GPU-00000000"
            await monitor.press("y")
            assert monitor.app.clipboard == "GPU-00000000"

    @pytest.mark.parametrize("size", [(60, 15), (80, 24), (160, 40), (200, 50)], ids=str)
    async def test_reasons_are_whole(self, size):
        reason = "refused by somebody at this moment"
        async with open_monitor(scenes.snapshot((scenes.device(bar1=Absent(reason)),)), size=size) as monitor:
            await monitor.press("tab", "enter")
            assert set(reason.split()) <= set(await every_word(monitor))

    async def test_readings_that_are_absent_for_one_reason_share_a_sentence(self):
        lost = Absent("no permission")
        async with open_monitor(scenes.snapshot((scenes.device(bar1=lost, serial=lost, vbios=lost),))) as monitor:
            await monitor.press("tab", "enter")
            assert "Memory (BAR1); Identity (serial, VBIOS): no permission." in monitor.text

    async def test_a_mig_instance_has_no_empty_rows_and_names_the_gpu_with_the_rest(self):
        of_parent = Absent("measured for the whole GPU, not for its MIG instances")
        instance = scenes.instances(1, 1)[0]
        own = {"index", "uuid", "name", "bus_id", "mig", "lost", "memory", "problems", "shares_host_memory"}
        readings = {name: of_parent for name in instance._fields if name not in own}
        async with open_monitor(scenes.snapshot((instance._replace(**readings),))) as monitor:
            await monitor.press("tab", "enter")
            assert monitor.text.count("measured for the whole GPU") == 1
            assert "which are on the screen of GPU 1" in monitor.text
            assert "fan" not in monitor.text

    async def test_graphs_are_taller_on_a_taller_terminal(self):
        heights = []
        for height in (40, 60):
            async with open_monitor(size=(120, height)) as monitor:
                await monitor.press("tab", "enter")
                top = next(place for place, line in enumerate(monitor.lines) if line.startswith("  100%"))
                heights.append(next(p for p, line in enumerate(monitor.lines) if "s per cell" in line) - top)
        assert heights[0] < heights[1]

    async def test_a_page_says_how_much_more_there_is(self):
        async with open_monitor(size=(80, 24)) as monitor:
            await monitor.press("tab", "enter")
            assert "below: PgDn" in monitor.lines[-2]
            assert "above" not in monitor.lines[-2]
            await monitor.press("end")
            assert "above" in monitor.lines[-2]
            assert "below" not in monitor.lines[-2]

    async def test_scrolls_to_every_reading_on_a_small_terminal(self):
        async with open_monitor(size=(80, 24)) as monitor:
            await monitor.press("tab", "enter")
            assert "VBIOS" not in monitor.text
            await monitor.press("end")
            assert "VBIOS" in monitor.text
            await monitor.press("home")
            assert "Device 0" in monitor.lines[1]


SECRET = "0123456789abcdef"


def with_secrets(identity: Identity) -> ProcessDetails:
    """The details of a process with a secret in its environment and in its command line."""
    return scenes.details(identity)._replace(
        environment=(("WANDB_API_KEY", SECRET), ("MIDDLE", "2"), ("ALPHA", "1")),
        command_line=("python", "train.py", f"--token={SECRET}"),
    )


class TestProcess:
    async def test_opens_with_enter_and_closes_with_escape(self):
        async with open_monitor() as monitor:
            await monitor.press("enter")
            await monitor.until(lambda: "waits for" in monitor.text)
            assert "Process 2010  train.py" in monitor.lines[1]
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

    async def test_the_environment_is_in_order_and_only_there_after_e(self):
        async with open_monitor(size=(120, 60)) as monitor:
            monitor.machine.details = with_secrets
            await monitor.press("enter")
            await monitor.until(lambda: "waits for" in monitor.text)
            assert "ALPHA" not in monitor.text
            await monitor.press("e")
            assert monitor.text.index("ALPHA=1") < monitor.text.index("MIDDLE=2") < monitor.text.index("WANDB_API_KEY=")
            await monitor.press("e")
            assert "ALPHA" not in monitor.text

    async def test_secrets_are_masked_until_a_key_shows_them(self):
        async with open_monitor(size=(120, 60)) as monitor:
            monitor.machine.details = with_secrets
            await monitor.press("e")
            await monitor.until(lambda: "WANDB_API_KEY=" in monitor.text)
            assert SECRET not in monitor.text
            await monitor.press("Y")
            assert SECRET not in monitor.app.clipboard
            await monitor.press("v")
            assert f"WANDB_API_KEY={SECRET}" in monitor.text
            assert f"--token={SECRET}" in monitor.text
            await monitor.press("v")
            assert SECRET not in monitor.text

    async def test_an_ended_process_offers_neither_attaching_nor_signals(self):
        async with open_monitor() as monitor:
            await monitor.press("enter")
            assert "Attach" in monitor.lines[-1]
            await monitor.see(scenes.snapshot(scenes.devices(8), number=2))
            assert "Attach" not in monitor.lines[-1]
            assert "Terminate" not in monitor.lines[-1]
            await monitor.press("T", "a")
            assert monitor.screen == "ProcessScreen"

    async def test_readings_that_are_absent_for_one_reason_share_a_sentence(self):
        async with open_monitor(size=(120, 60)) as monitor:
            monitor.machine.details = scenes.no_details
            await monitor.press("end", "up", "enter")
            await monitor.until(lambda: "Not known: user, waits for, threads, open files" in monitor.text)
            assert monitor.text.count("(the process has ended)") == 1
            assert "Attach" not in monitor.lines[-1]

    async def test_keeps_the_last_readings_when_the_process_ends(self):
        async with open_monitor() as monitor:
            await monitor.press("enter")
            await monitor.see(scenes.snapshot(scenes.devices(8), number=2))
            assert "Process 2010  train.py" in monitor.lines[1]
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
            await monitor.press("e")
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
            await monitor.until(lambda: "waits for" in monitor.text)

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
