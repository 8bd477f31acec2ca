"""The main screens as they are: text in three sizes, and the looks of a few."""

from __future__ import annotations

import pytest

from gputui.model.device import DeviceLook, Lost
from gputui.model.reading import Absent
from tests.ui import scenes
from tests.ui.monitor import Monitor, Size, open_monitor

SIZES = [(80, 24), (120, 40), (200, 50)]

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
}


async def open_screen(monitor: Monitor, keys: list[str]) -> None:
    """Press the keys, give the history some past, and wait for what is read only then."""
    for number in range(2, 12):
        await monitor.see(monitor.machine.snapshot._replace(number=number, time=scenes.NOW + 2 * number))
    await monitor.press(*keys)
    if monitor.screen == "ProcessScreen":
        await monitor.until(lambda: monitor.app.snapshot.details is not None)
    await monitor.settle()


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SCREENS)
async def test_screen(name: str, size: Size, screen_text):
    scene, keys = SCREENS[name]
    async with open_monitor(scene, size=size) as monitor:
        await open_screen(monitor, keys)
        assert monitor.text == screen_text


@pytest.mark.parametrize("name", ["overview", "device", "confirm"])
async def test_looks(name: str, screen_looks):
    scene, keys = SCREENS[name]
    async with open_monitor(scene, size=(120, 40)) as monitor:
        await open_screen(monitor, keys)
        assert monitor.app.export_screenshot(title="gputui") == screen_looks


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", [*SCREENS, "palette", "toast", "names"])
async def test_with_ascii_every_cell_is_ascii(name: str, size: Size):
    foreign = scenes.process(command="训练 🔥 é", user="Zoë")
    extra = {
        "palette": (scenes.node(), ["ctrl+p"]),
        "toast": (scenes.node(), ["end", "K"]),
        "names": (scenes.snapshot(scenes.devices(1), (foreign,)), ["space", "e"]),
    }
    scene, keys = (SCREENS | extra)[name]
    async with open_monitor(scene, size=size, ascii=True) as monitor:
        await open_screen(monitor, keys)
        assert [line for line in monitor.lines if not line.isascii()] == []


async def test_with_ascii_meters_and_graphs_are_drawn(screen_text):
    async with open_monitor(size=(120, 40), ascii=True) as monitor:
        await open_screen(monitor, [])
        assert monitor.text == screen_text
