"""What is wrong with this machine, on screen: the number, the list, and the way to device and process."""

from __future__ import annotations

import pytest

from gputui.model.machine.device import Lost
from gputui.model.machine.host import Space
from gputui.model.machine.owner import Owner
from gputui.model.machine.snapshot import Snapshot
from gputui.units import GIB
from tests.ui import scenes
from tests.ui.monitor import Monitor, open_monitor

ECC = scenes.snapshot((scenes.device(0), scenes.device(1, ecc_uncorrected=2)))
ORPHAN = scenes.snapshot(
    scenes.devices(1),
    (scenes.process(uses=(scenes.use(0, 1000, 20.0, sm_percent=0),), is_orphan=True, owner=Owner()),),
)
FULL = scenes.snapshot(scenes.devices(1), host=scenes.HOST._replace(shm=Space(64 * GIB, 63 * GIB)))


async def after_a_minute(monitor: Monitor, snapshot: Snapshot) -> None:
    for second in range(0, 66, 2):
        await monitor.see(snapshot._replace(time=scenes.NOW + second, number=second + 2))


async def test_the_top_line_says_how_many_there_are_and_w_shows_them():
    async with open_monitor(ECC, size=(80, 24)) as monitor:
        assert "1 finding " in monitor.lines[0]
        await monitor.press("w")
        assert "! GPU 1: 2 memory errors that ECC could not correct" in monitor.text
        assert "> Programs that ran then may have wrong results." in monitor.text
        await monitor.press("escape")
        assert monitor.screen == "Overview"


async def test_enter_goes_to_the_device_whose_screen_says_the_same():
    async with open_monitor(ECC, size=(120, 40)) as monitor:
        await monitor.press("w", "enter")
        assert monitor.screen == "DeviceScreen"
        assert "Device 1 " in monitor.text
        assert "! 2 memory errors that ECC could not correct" in monitor.text


async def test_enter_goes_to_the_process_of_a_finding():
    async with open_monitor(ORPHAN, size=(120, 40)) as monitor:
        await after_a_minute(monitor, ORPHAN)
        await monitor.press("w")
        assert "! GPU 0: An orphan holds 20.0 GiB: ana (PID 1000)" in monitor.text
        assert "Seen since" in monitor.text
        await monitor.press("enter")
        assert monitor.screen == "ProcessScreen"
        assert "An orphan holds 20.0 GiB" in monitor.text
        await monitor.press("w", "escape", "escape", "escape")
        assert monitor.screen == "Overview"


async def test_a_finding_about_the_host_has_no_screen_and_says_so():
    async with open_monitor(FULL, size=(80, 24)) as monitor:
        await monitor.press("w", "enter")
        assert monitor.notices == ["This finding is about the host, which the overview shows."]


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_of_a_healthy_machine_the_screen_says_that_nothing_is_wrong(size):
    async with open_monitor(scenes.snapshot(scenes.devices(2)), size=size) as monitor:
        assert "finding" not in monitor.lines[0]
        await monitor.press("w")
        assert "Nothing is wrong with this machine" in monitor.text


async def test_a_finding_that_is_over_leaves_the_screen():
    async with open_monitor(ECC, size=(80, 24)) as monitor:
        await monitor.press("w")
        await monitor.see(scenes.snapshot(scenes.devices(2), number=9))
        assert "Nothing is wrong with this machine" in monitor.text


async def test_a_device_that_is_gone_is_shown_until_it_is_back():
    async with open_monitor(ECC, size=(80, 24)) as monitor:
        await monitor.see(scenes.without_device(ECC, 1, number=9))
        await monitor.press("w", "enter")
        assert "NVML no longer reports this device" in monitor.text


async def test_a_lost_device_says_it_once_on_its_screen():
    lost = scenes.snapshot((scenes.device(0, lost=Lost("GPU is lost", "it needs a reboot.")),))
    async with open_monitor(lost, size=(120, 40)) as monitor:
        await monitor.press("w")
        assert "GPU 0: Does not answer: GPU is lost" in monitor.text
        assert "It needs a reboot." in monitor.text
        await monitor.press("enter")
        assert monitor.text.count("GPU is lost") == 1
