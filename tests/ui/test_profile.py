"""True utilisation on screen: beside how busy a GPU is, and on the device screen with its history."""

from __future__ import annotations

import pytest

from gputui.model.reading import NOT_READ
from tests.ui import scenes
from tests.ui.monitor import open_monitor

PROFILED = scenes.snapshot((scenes.device(0, **scenes.PROFILE), scenes.device(1)))


@pytest.mark.parametrize(("width", "is_shown"), [(80, False), (120, True), (200, True)])
async def test_the_overview_has_tensor_cores_beside_the_gpu_where_there_is_room(width, is_shown):
    async with open_monitor(PROFILED, size=(width, 40)) as monitor:
        head, first, second = monitor.lines[1:4]
        assert ("Tensor" in head) == is_shown
        assert (" 38% " in first) == is_shown
        assert " 90% " in first
        assert " 38%" not in second
        assert " 0% " not in second.partition("G/")[0]


async def test_there_is_no_column_where_nothing_is_measured():
    async with open_monitor(scenes.snapshot(scenes.devices(2)), size=(200, 40)) as monitor:
        for title in ("Tensor", "SM act", "DRAM"):
            assert title not in monitor.lines[1]


async def test_the_device_screen_has_all_units_and_graphs_of_three():
    async with open_monitor(PROFILED, size=(200, 60)) as monitor:
        await monitor.press("tab", "home", "enter")
        for text in ("SMs active ─", "Tensor cores ─", "Memory bandwidth ─", "True utilisation ─"):
            assert text in monitor.text
        for label, value in (("SM occupancy", "35%"), ("tensor cores", "38%"), ("FP32", "3%"), ("measured by", "gpm")):
            assert f"{label:<19}{value}" in monitor.text


async def test_what_is_not_measured_has_its_reason_and_no_graph():
    async with open_monitor(PROFILED, size=(200, 60)) as monitor:
        await monitor.press("tab", "end", "enter")
        assert "Tensor cores ─" not in monitor.text
        assert "True utilisation (SMs active, SM occupancy, tensor cores" in monitor.text


async def test_what_is_not_read_yet_keeps_its_place():
    device = scenes.device(**dict.fromkeys(scenes.PROFILE, NOT_READ))
    async with open_monitor(scenes.snapshot((device,)), size=(200, 60)) as monitor:
        assert "Tensor" not in monitor.lines[1]
        await monitor.press("tab", "enter")
        assert "Tensor cores ─" in monitor.text


@pytest.mark.parametrize(("power_w", "is_said"), [(118.0, True), (400.0, False)])
async def test_a_busy_gpu_that_only_waits_is_noted_and_its_screen_says_why(power_w, is_said):
    waiting = {**scenes.PROFILE, "gpu_utilization_percent": 100, "tensor_percent": 0.0, "dram_percent": 1.0}
    waiting["sm_active_percent"] = 18.0
    scene = scenes.snapshot((scenes.device(**waiting, power_w=power_w),))
    async with open_monitor(scene, size=(80, 24)) as monitor:
        for second in range(1, 61):
            await monitor.see(scene._replace(time=scenes.NOW + second, number=second + 1))
        assert ("busy, no work" in monitor.lines[2]) == is_said
        await monitor.press("tab", "enter")
        assert ("Busy, and hardly working" in monitor.text) == is_said
