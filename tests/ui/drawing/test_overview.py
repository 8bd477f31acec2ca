"""The overview drawn in one call matches what its widgets show."""

from __future__ import annotations

import pytest

from gputui.settings import Settings
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.line import text_of, width_of
from gputui.ui.drawing.monitor.overview import draw_overview
from gputui.ui.drawing.monitor.process_rows import View
from tests.ui import scenes
from tests.ui.monitor import open_monitor

SIZES = [(80, 24), (119, 40)]
"""Sizes without a history column and without a band of graphs."""


@pytest.mark.parametrize("scene", [scenes.node(), scenes.snapshot()], ids=["many", "few"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_drawn_overview_matches_the_widgets(scene, size):
    lines = draw_overview(scene, View(), Settings().columns, Appearance(), *size)
    async with open_monitor(scene, size=size) as monitor:
        assert text_of(lines).split("\n") == monitor.lines[: len(lines)]


@pytest.mark.parametrize("size", [(1, 1), (5, 3), (20, 5), (80, 2), (300, 100)], ids=str)
def test_the_drawn_overview_fits_any_terminal(size):
    lines = draw_overview(scenes.node(), View(), Settings().columns, Appearance(), *size)
    assert len(lines) <= size[1]
    assert max(map(width_of, lines)) <= max(size[0], 10)
