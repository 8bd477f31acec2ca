"""Snapshots of the main screens: text in three sizes, and SVG pictures of a few."""

from __future__ import annotations

import pytest

from gputui.explain.machine.record import record
from gputui.model.machine.device import DeviceLook, Lost
from gputui.model.reading import Absent
from tests.ui import scenes
from tests.ui.monitor import Monitor, open_monitor

SIZES = [(80, 24), (120, 40), (200, 50)]
PICTURED = ("overview", "device", "confirm")

LOST = scenes.node()._replace(
    devices=scenes.node().devices._replace(
        devices=tuple(
            board._replace(lost=Lost("GPU is lost (XID 79)", "it needs a reboot."), memory=Absent("GPU is lost"))
            if board.index == 5
            else board
            for board in scenes.devices(8)
        ),
    ),
)
WRONG = LOST._replace(
    devices=LOST.devices._replace(
        devices=(scenes.device(0, ecc_uncorrected=3, recovery_action="GPU reset"), *LOST.devices.devices[1:])
    )
)
PROBLEM = scenes.snapshot(devices=DeviceLook(problem=scenes.PROBLEM))

SCREENS = {
    "overview": (scenes.node(), []),
    "tree": (scenes.node(), ["t"]),
    "device": (scenes.node(), ["tab", "down", "enter"]),
    "process": (scenes.node(), ["enter"]),
    "help": (scenes.node(), ["question_mark"]),
    "sort": (scenes.node(), ["o"]),
    "confirm": (scenes.node(), ["space", "space", "K"]),
    "filter": (scenes.node(), ["slash", *"user==ana and mem>10GiB"]),
    "problem": (PROBLEM, []),
    "lost": (LOST, []),
    "findings": (WRONG, ["w"]),
}


EXTRA = {
    "palette": (scenes.node(), ["ctrl+p"]),
    "toast": (scenes.node(), ["end", "K"]),
    "names": (
        scenes.snapshot(scenes.devices(1), (scenes.process(command="训练 🔥 é", user="Zoë"),)),
        ["space", "e"],
    ),
}


FIVE_SIZES = [(60, 20), (80, 24), (100, 30), (120, 40), (200, 50)]
MACHINES = {
    "8-gpus": scenes.node(),
    "1-gpu": scenes.snapshot(scenes.devices(1), (scenes.process(),)),
    "mig": scenes.snapshot(
        (*scenes.devices(1), *scenes.instances(0, 7)),
        (scenes.process(uses=(scenes.use(gib=4.0)._replace(device="MIG-0-1"),)),),
    ),
    "no-driver": PROBLEM,
}


@pytest.mark.parametrize("machine", MACHINES)
async def test_an_overview_at_five_sizes(machine: str, screen_text):
    async with open_monitor(MACHINES[machine], size=(80, 24)) as monitor:
        pictures = []
        for width, height in FIVE_SIZES:
            await monitor.resize(width, height)
            pictures.append(f"{width}x{height}\n{monitor.text}\n")
        assert "".join(pictures) == screen_text


async def open_screen(monitor: Monitor, keys: list[str]) -> None:
    """Fill the history with ten snapshots, press the keys, and wait for readings made only on that screen."""
    *past, newest = (
        monitor.machine.snapshot._replace(number=number, time=scenes.NOW + 2 * number) for number in range(2, 12)
    )
    for snapshot in past:
        record(monitor.app.history, snapshot)
    await monitor.see(newest)
    await monitor.press(*keys)
    if monitor.screen == "ProcessScreen":
        await monitor.until(lambda: monitor.app.snapshot.details is not None)
    await monitor.settle()


@pytest.mark.parametrize("name", SCREENS)
async def test_screen(name: str, screen_text, screen_looks):
    scene, keys = SCREENS[name]
    async with open_monitor(scene, size=SIZES[0]) as monitor:
        await open_screen(monitor, keys)
        for width, height in SIZES:
            await monitor.resize(width, height)
            assert monitor.text == screen_text(name=f"{width}x{height}")
        if name in PICTURED:
            await monitor.resize(120, 40)
            assert monitor.app.export_screenshot(title="gputui") == screen_looks(name="looks")


@pytest.mark.parametrize("name", [*SCREENS, *EXTRA])
async def test_with_ascii_every_cell_is_ascii(name: str, screen_text):
    scene, keys = (SCREENS | EXTRA)[name]
    async with open_monitor(scene, size=SIZES[0], ascii=True) as monitor:
        await open_screen(monitor, keys)
        for width, height in SIZES:
            await monitor.resize(width, height)
            assert [line for line in monitor.lines if not line.isascii()] == [], (width, height)
            if (name, width) == ("overview", 120):  # meters and graphs are drawn
                assert monitor.text == screen_text
