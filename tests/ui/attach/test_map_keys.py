"""The Map screen in the running application: keys, jumps, mouse, new looks, and what a key costs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from rich.color import ColorSystem

from gputui.model.attached.moment import DeviceLayout, DeviceMoment, TargetMoment
from gputui.model.attached.target import Greeting
from gputui.model.reading import Problem
from gputui.ui.drawing.attach.map import row_cells
from gputui.ui.drawing.attach.map.cells import LIVE
from gputui.ui.screens.attach.map import MapScreen
from gputui.ui.widgets.attach.map_view import MapView
from tests.explain.maps import BASE, layout, segment, statistics
from tests.ui.attach.layouts import OUT, STATE, WEIGHT, device_layout
from tests.ui.attach.sitting import Sitting, sitting

MIB = 1024**2
GREETING = Greeting(77, "python train.py", "3.12.3", "2.11.0", None, None, is_cuda_initialized=True, devices=())


def at(number: int) -> int:
    return BASE + number * 1024 * MIB


LAYOUT = device_layout(
    segment(("live", 5), ("free", 10), ("live", 5), address=at(1)),
    segment(("live", 10), ("free", 10), address=at(2)),
    segment(("live", 1), ("free", 19), address=at(3)),
    segment(("live", 1), ("free", 1), address=at(4), is_small=True),
    owners=(WEIGHT, STATE, OUT),
)


def moment_of(device: DeviceLayout | None, moment_time: float = 1.0, look_time: float = 1.0) -> TargetMoment:
    counters = device.statistics if device else statistics(layout())
    return TargetMoment(moment_time, GREETING, (DeviceMoment(0, "", counters, layout=device),), look_time=look_time)


class Attached(Sitting):
    """The application on its Map screen, with the queries that tests need."""

    @property
    def map(self) -> MapView:
        return self.app.screen.query_one(MapView)

    @property
    def place(self) -> tuple[int, int]:
        """The number of the segment under the cursor, and the number of the block in it."""
        assert self.map.release is not None
        return (self.map.release.segment.address - BASE) // (1024 * MIB), self.map.block


@asynccontextmanager
async def open_map(moment: TargetMoment, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Attached]:
    """The application on the Map screen, attached to a process with this moment."""
    async with sitting(moment, size=size, kind=Attached) as attached:
        await attached.press("3")
        await attached.until(lambda: attached.map.lines)
        yield attached


WALKS = {
    "the cursor starts on the first block": ([], (1, 0)),
    "right: the next block": (["right"], (1, 1)),
    "l and h": (["l", "l", "h"], (1, 1)),
    "left stops at the first": (["left"], (1, 0)),
    "down: the next segment": (["down"], (2, 0)),
    "down stays in the column": (["right", "right", "down"], (2, 1)),
    "right of the last block: the next segment": (["right", "right", "right"], (2, 0)),
    "left of the first block: the end of the previous segment": (["down", "left"], (1, 2)),
    "End, past the heading in between": (["end"], (4, 0)),
    "up, past the heading in between": (["end", "up"], (3, 0)),
    "Home skips the heading": (["end", "home"], (1, 0)),
    "Shift+right: the block in the next cell": (["shift+right"], (1, 1)),
}
SORTED_WALKS = {
    "sorted by stuck bytes: the largest first": (["o", "k"], (3, 0)),
    "sorted by size and reversed: the smallest group first": (["o", "z", "r"], (4, 0)),
    "a capital letter reverses": (["o", "A"], (3, 0)),
}


async def test_keys_move_between_segments_and_blocks():
    async with open_map(moment_of(LAYOUT)) as attached:
        for what, (keys, place) in WALKS.items():
            await attached.press(*keys)
            assert attached.place == place, what
            attached.app.screen.jump(at(1))
            await attached.settle()


@pytest.mark.parametrize(("keys", "place"), SORTED_WALKS.values(), ids=SORTED_WALKS)
async def test_keys_sort_segments(keys, place):
    async with open_map(moment_of(LAYOUT)) as attached:
        await attached.press(*keys)
        assert attached.place == place


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_the_inspector_describes_the_block_under_the_cursor(size):
    async with open_map(moment_of(LAYOUT), size) as attached:
        assert "fc.weight" in attached.text
        await attached.press("down")
        assert "out (train.py:7)" in attached.text
        assert "Freeing it would let empty_cache() return" in attached.text


async def test_on_a_wide_terminal_the_inspector_is_beside_the_map():
    async with open_map(moment_of(LAYOUT), (120, 40)) as attached:
        assert attached.app.screen.query_one("#inspector").region.x > attached.map.region.x
    async with open_map(moment_of(LAYOUT), (119, 40)) as attached:
        assert attached.app.screen.query_one("#inspector").region.y > attached.map.region.y


async def test_z_zooms_in_and_z_or_escape_zooms_out_on_the_current_block():
    async with open_map(moment_of(LAYOUT)) as attached:
        for back in ("z", "escape"):
            await attached.press("home", "left", "left", "right", "z")
            assert attached.map.is_zoomed
            assert f"Segment {at(1):#x}  20.0 MiB  3 blocks" in attached.text
            assert attached.place == (1, 1)
            await attached.press("right", back)
            assert not attached.map.is_zoomed
            assert attached.place == (1, 2)


async def test_escape_without_a_zoom_leaves_the_screen():
    async with open_map(moment_of(LAYOUT)) as attached:
        await attached.press("escape")
        await attached.until(lambda: not isinstance(attached.app.screen, MapScreen))


async def test_a_jump_moves_the_cursor_to_the_block_that_holds_an_address():
    async with open_map(moment_of(LAYOUT)) as attached:
        attached.app.screen.jump(at(1) + 16 * MIB)
        assert attached.place == (1, 2)
        attached.app.screen.jump(at(3) + 4)
        assert attached.place == (3, 0)


async def test_a_jump_from_another_screen_reaches_its_block():
    async with open_map(moment_of(LAYOUT)) as attached:
        attached.app.show_attach_screen("memory")
        await attached.pilot.pause()
        attached.app.jump_to("map", at(3))
        await attached.until(lambda: isinstance(attached.app.screen, MapScreen) and attached.app.screen.query(MapView))
        await attached.until(lambda: attached.map.release is not None and attached.place == (3, 0))


async def test_a_jump_to_memory_that_is_gone_shows_a_message():
    async with open_map(moment_of(LAYOUT)) as attached:
        attached.app.screen.jump(at(9))
        await attached.pilot.pause()
        assert [notice.message for notice in attached.app._notifications] == [
            f"No segment contains {at(9):#x} any more: the allocator has released it."
        ]
        assert attached.place == (1, 0)


async def test_enter_jumps_to_the_tensor_of_a_live_block(monkeypatch):
    async with open_map(moment_of(LAYOUT)) as attached:
        jumps = []
        monkeypatch.setattr(attached.app, "jump_to", lambda *place: jumps.append(place))
        await attached.press("enter", "down", "t")
        assert jumps == [("tensors", at(1)), ("tensors", at(2))]


async def test_enter_on_free_memory_shows_that_it_has_no_tensor():
    async with open_map(moment_of(LAYOUT)) as attached:
        await attached.press("right", "enter")
        assert [notice.message for notice in attached.app._notifications] == ["This block is free: it has no tensor."]


async def test_a_click_moves_the_cursor_to_the_block():
    async with open_map(moment_of(LAYOUT)) as attached:
        y = next(y for y, line in enumerate(attached.text.splitlines()) if f"{at(2):012x}" in line)
        await attached.pilot.click(offset=(70, y))
        assert attached.place == (2, 1)


async def test_a_click_on_the_head_sorts():
    async with open_map(moment_of(LAYOUT)) as attached:
        await attached.pilot.click(offset=(24, attached.map.region.y))
        await attached.pilot.pause()
        assert attached.place == (3, 0)


async def test_a_new_look_keeps_the_cursor_on_its_address():
    async with open_map(moment_of(LAYOUT)) as attached:
        await attached.press("down", "down")
        newer = device_layout(
            segment(("live", 20), address=at(0)),
            segment(("live", 1), ("free", 10), ("live", 9), address=at(3)),
        )
        await attached.deal(moment_of(newer, 2.0, 2.0))
        assert attached.place == (3, 0)


@pytest.mark.parametrize("is_zoomed", [False, True])
async def test_the_cursor_stays_nearby_when_its_segment_is_gone(is_zoomed):
    async with open_map(moment_of(LAYOUT)) as attached:
        await attached.press("end", *(["z"] if is_zoomed else []))
        await attached.deal(moment_of(device_layout(segment(("live", 20), address=at(1))), 2.0, 2.0))
        assert attached.place == (1, 0)
        assert not attached.map.is_zoomed


@pytest.mark.parametrize(
    ("moment", "sentence"),
    [
        pytest.param(
            moment_of(None, look_time=0.0), "Waiting for the first look at the allocator's segments", id="no look yet"
        ),
        pytest.param(moment_of(None), "PyTorch holds no memory on device 0.", id="nothing allocated"),
        pytest.param(
            replace(moment_of(None), problems=(Problem("The backend cudaMallocAsync has no map."),)),
            "The backend cudaMallocAsync has no map.",
            id="another backend",
        ),
        pytest.param(moment_of(device_layout()), "PyTorch holds no memory on device 0.", id="a map without segments"),
    ],
)
async def test_an_empty_map_shows_the_reason(moment, sentence):
    async with open_map(moment) as attached:
        assert sentence in attached.text
        await attached.press("down", "right", "z", "enter", "o", "k", "r")
        assert sentence in attached.text


BIG = device_layout(
    *(segment(*[("live", 0.25), ("free", 0.25)] * 40, address=at(number)) for number in range(124)),
    segment(*[("live", 0.25), ("free", 0.25)] * 40, address=at(200), is_expandable=True, stream=1),
)
"""10,000 blocks in 125 segments."""


async def test_a_key_draws_only_lines_that_come_into_view(monkeypatch):
    assert sum(len(release.segment.blocks) for release in BIG.release.segments) == 10_000
    async with open_map(moment_of(BIG)) as attached:
        drawn = []
        real = row_cells.runs_to_scale
        monkeypatch.setattr(row_cells, "runs_to_scale", lambda *arguments: drawn.append(arguments) or real(*arguments))
        for keys, lines in ((["down"], 1), (["right"] * 10, 1), (["pagedown"], 12), (["end"], 20)):
            drawn.clear()
            await attached.press(*keys)
            assert len(drawn) <= lines, keys


DEPTHS = (
    ("terminal", ColorSystem.STANDARD),
    ("textual-dark", ColorSystem.EIGHT_BIT),
    ("textual-light", ColorSystem.EIGHT_BIT),
)


async def test_every_category_has_a_distinct_colour():
    async with open_map(moment_of(LAYOUT)) as attached:
        for theme, depth in DEPTHS:
            attached.app.theme = theme
            await attached.settle()
            styles = [attached.map._style(kind.role) for kind in LIVE.values()]
            assert len({style.color.downgrade(depth) for style in styles}) == len(styles), theme
            assert all(style.reverse for style in styles), theme


async def test_the_cursor_moves_line_by_line_in_a_large_segment():
    two_segments = device_layout(
        segment(*[("live", 0.5), ("free", 0.5)] * 100, address=at(1)), segment(("live", 2), address=at(9))
    )
    async with open_map(moment_of(two_segments)) as attached:
        await attached.press("down")
        assert attached.place == (1, 25)
        await attached.press("down", "up", "up")
        assert attached.place == (1, 0)
        await attached.press("left", "down", "right")
        assert attached.place == (1, 26)
