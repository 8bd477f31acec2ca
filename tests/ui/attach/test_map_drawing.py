"""The map's rows: groups with their totals, sort orders, notes, the legend, and a zoomed segment."""

from __future__ import annotations

import pytest

from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.attach.map.cells import spans_of
from gputui.ui.drawing.attach.map.groups import SEGMENT_ORDERS, Heading, SegmentRow, Sorting, groups_of, map_rows
from gputui.ui.drawing.attach.map.segments import (
    CELLS_AT,
    draw_heading,
    draw_map_head,
    draw_map_legend,
    kinds_of,
    note_of,
)
from gputui.ui.drawing.attach.map.zoom import cells_of_block, draw_zoom_row, row_of_block, runs_of_chunk, zoom_rows
from gputui.ui.drawing.line import text_of, width_of
from tests.explain.maps import BASE, pool, segment
from tests.ui.attach.layouts import OUT, STATE, WEIGHT, device_layout, release_of

MIB = 1024**2


def at(number: int) -> int:
    return BASE + number * 1024 * MIB


VARIED = device_layout(
    segment(("live", 1), ("free", 19), address=at(3)),
    segment(("live", 20), address=at(1)),
    segment(("free", 20), address=at(2)),
    segment(("live", 1), ("free", 1), address=at(4), is_small=True),
    segment(("live", 10), ("free", 30), address=at(5), stream=0x5500),
    segment(("free", 20), address=at(6), pool_id=(0, 1)),
    pools=[pool((0, 1), "torch.cuda.MemPool")],
    owners=(WEIGHT, STATE, OUT),
)


def test_pools_streams_and_private_pools_are_separate_groups():
    titles = [group.title for group in groups_of(VARIED)]
    assert titles == [
        "Large pool, default stream",
        "Small pool, default stream",
        "Large pool, stream 0x5500",
        "Large pool 0,1 of MemPool, default stream",
    ]


def test_every_segment_is_in_one_group():
    grouped_addresses = [release.segment.address for group in groups_of(VARIED) for release in group.releases]
    assert sorted(grouped_addresses) == [at(number) for number in range(1, 7)]


@pytest.mark.parametrize(
    ("sorting", "first", "order"),
    [
        pytest.param(Sorting("address"), "Large pool, default stream", [1, 2, 3], id="address"),
        pytest.param(
            Sorting("address", is_reversed=True), "Large pool, default stream", [3, 2, 1], id="address, reversed"
        ),
        pytest.param(Sorting("size"), "Large pool, default stream", [1, 2, 3], id="size, equal ones by address"),
        pytest.param(Sorting("stuck"), "Large pool, stream 0x5500", [3, 1, 2], id="stuck bytes"),
        pytest.param(Sorting("releasable"), "Large pool, default stream", [2, 1, 3], id="releasable bytes"),
    ],
)
def test_groups_and_segments_follow_the_sort_order(sorting, first, order):
    groups = groups_of(VARIED, sorting)
    assert groups[0].title == first
    large = next(group for group in groups if group.title == "Large pool, default stream")
    assert [release.segment.address for release in large.releases] == [at(number) for number in order]


def test_a_heading_shows_the_totals_of_its_group():
    heading = map_rows(groups_of(VARIED), 72)[0]
    words = "Large pool, default stream  60.0 MiB  stuck 19.0 MiB  releasable 20.0 MiB"
    narrow = text_of((draw_heading(heading, 100),))
    assert (narrow.startswith(f"{words}  "), narrow.split("  ")[-1].strip()) == (True, "cell 284 KiB")
    assert text_of((draw_heading(heading, 120),)).startswith(f"{words}  in 3 segments  ")


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_heading_is_wider_than_the_map(width):
    for row in map_rows(groups_of(VARIED), width - CELLS_AT):
        if isinstance(row, Heading):
            assert width_of(draw_heading(row, width)) <= width


def test_small_segments_beside_huge_ones_get_their_own_scale():
    mixed_sizes = device_layout(
        segment(("live", 10240), address=at(100)),
        segment(("live", 5), ("free", 15), address=at(1)),
        segment(("live", 20), address=at(2)),
    )
    rows = map_rows(groups_of(mixed_sizes), 52)
    assert [row.title for row in rows if isinstance(row, Heading)] == [
        "Large pool, default stream",
        "  up to 20.0 MiB",
        "  up to 10.0 GiB",
    ]
    assert [row.cells for row in rows if isinstance(row, SegmentRow)] == [52, 52, 52]


def test_a_lone_segment_takes_several_lines_and_many_segments_one_each():
    blocks = [("live", 0.5), ("free", 0.5)] * 100
    alone = [row for row in map_rows(groups_of(device_layout(segment(*blocks))), 50) if isinstance(row, SegmentRow)]
    assert [row.line for row in alone] == list(range(8))
    assert {row.cells for row in alone} == {400}
    crowd = device_layout(*(segment(*blocks, address=at(number)) for number in range(20)))
    rows = [row for row in map_rows(groups_of(crowd), 50) if isinstance(row, SegmentRow)]
    assert len(rows) == 20


@pytest.mark.parametrize(
    ("release", "note"),
    [
        pytest.param(release_of(segment(("live", 20)), owners=(WEIGHT,)), "", id="in use"),
        pytest.param(release_of(segment(("free", 20))), "releasable", id="free"),
        pytest.param(
            release_of(segment(("live", 1), ("free", 19)), owners=(WEIGHT,)),
            "held by fc.weight",
            id="one live block holds it",
        ),
        pytest.param(
            release_of(segment(("live", 1), ("free", 14), ("live", 5)), owners=(WEIGHT, OUT)),
            "held by out (train.py:7) and 1 more",
            id="the largest of several is named",
        ),
        pytest.param(
            release_of(segment(("live", 1), ("free", 19))), "held by unattributed", id="the holder is unattributed"
        ),
        pytest.param(release_of(segment(("free", 20)), routed=[0]), "kept by a capture", id="a capture"),
    ],
)
def test_a_row_shows_why_its_segment_is_kept(release, note):
    assert note_of(release) == note


def test_the_head_marks_the_sort_order():
    assert "Stuck▼" in text_of((draw_map_head(Sorting("stuck"), 80, Appearance()),))
    assert "Stuck▲" in text_of((draw_map_head(Sorting("stuck", is_reversed=True), 80, Appearance()),))
    assert "Address▲" in text_of((draw_map_head(Sorting(), 80, Appearance()),))


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_the_legend_lists_every_kind_on_the_map_within_the_width(width):
    kinds = kinds_of(VARIED)
    lines = draw_map_legend(kinds, width)
    assert all(width_of(line) <= width for line in lines)
    words = text_of(lines).replace("\n", " ").split(" ")
    assert {kind.letter for kind in kinds} <= set(words)


def test_every_sort_order_has_its_own_letter():
    assert len({order.letter for order in SEGMENT_ORDERS}) == len(SEGMENT_ORDERS)


def zoomed(release, page_bytes: int | None, room: int = 40) -> list[str]:
    spans = spans_of(release)
    rows = zoom_rows(release, spans, page_bytes, room)
    return [
        text_of((draw_zoom_row(row, runs_of_chunk(row.chunk, spans, room), range(0), room + CELLS_AT, Appearance()),))
        for row in rows
    ]


def test_a_zoomed_expandable_segment_has_a_row_per_page():
    release = release_of(segment(("live", 30), ("free", 50), is_expandable=True), owners=(WEIGHT,))
    assert zoomed(release, 20 * MIB) == [
        f" {BASE:012x}  20.0M     p0 P fc.weight ────────────────────────────",
        f" {BASE + 20 * MIB:012x}  20.0M     p1 P fc.weight ────────s···················",
        f" {BASE + 40 * MIB:012x}  20.0M     p2 c·······································",
        f" {BASE + 60 * MIB:012x}  20.0M     p3 c·······································",
    ]


def test_a_zoomed_native_segment_has_one_row_that_shows_small_blocks():
    release = release_of(segment(("live", 0.001), ("free", 19.998), ("live", 0.001)), owners=(WEIGHT, OUT))
    assert zoomed(release, None) == [f" {BASE:012x}  20.0M        Ps·····································A"]


def test_every_block_of_a_zoomed_segment_is_drawn_on_its_cursor_row():
    blocks = [("live", 3), ("free", 0.5), ("live", 45), ("waits", 1.5)] * 30
    release = release_of(segment(*blocks, is_expandable=True))
    spans = spans_of(release)
    rows = zoom_rows(release, spans, 20 * MIB, 40)

    def runs_of(_release, chunk):
        return runs_of_chunk(chunk, spans, 40)

    for block in range(len(blocks)):
        row = rows[row_of_block(rows, runs_of, block, 40)]
        assert cells_of_block(runs_of(release, row.chunk), row, block, 40)
