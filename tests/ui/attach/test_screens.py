"""Snapshots of the seven attach screens: text in three sizes, and pictures at three colour depths."""

from __future__ import annotations

import pytest
from rich.color import ColorSystem

from tests.ui.attach.scene import job, machine
from tests.ui.attach.sitting import Sitting, sitting
from tests.ui.pictures import picture
from tests.ui.terminal import Terminal
from tests.ui.wire import Wire

SIZES = [(80, 24), (120, 40), (200, 50)]
PICTURED = (120, 40)
KEYS = {
    "memory": ["left", "left", "left"],
    "why": ["2"],
    "map": ["3"],
    "tensors": ["4", "down", "down", "right", "right", "right"],
    "changes": ["5", "f"],
    "ranks": ["6"],
    "step": ["7"],
}


async def open_screen(at: Sitting, name: str) -> None:
    """Open the screen with its keys."""
    await at.press(*KEYS[name])
    assert at.screen == name


@pytest.mark.parametrize("name", KEYS)
async def test_screen(name, screen_text, screen_looks):
    async with sitting(*job(), size=SIZES[0], snapshot=machine()) as at:
        await open_screen(at, name)
        for size in SIZES:
            await at.resize(*size)
            assert at.text == screen_text(name=f"{size[0]}x{size[1]}")
        await at.resize(*PICTURED)
        assert at.app.export_screenshot(title="gputui") == screen_looks(name="truecolor")
        for system, depth in ((ColorSystem.EIGHT_BIT, "256"), (ColorSystem.STANDARD, "16")):
            assert await sent(at, Wire(at.app, system)) == screen_looks(name=depth)


@pytest.mark.parametrize("name", KEYS)
async def test_without_colours_and_in_ascii(name, screen_looks, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    async with sitting(*job(), size=SIZES[0], snapshot=machine(), ascii=True) as at:
        await open_screen(at, name)
        for size in SIZES:
            await at.resize(*size)
            assert [line for line in at.lines if not line.isascii()] == [], size
        await at.resize(*PICTURED)
        assert await sent(at, Wire(at.app, None)) == screen_looks


async def sent(at: Sitting, wire: Wire) -> str:
    """A picture of the terminal after the whole screen is sent again."""
    await at.settle()
    wire.frames.forget()
    wire.sent.clear()
    at.app.screen.refresh()
    await at.settle()
    terminal = Terminal(*at.app.size)
    for difference in wire.sent:
        terminal.feed(difference)
    assert [line.rstrip() for line in terminal.text.split("\n")] == at.lines
    return picture(terminal)
