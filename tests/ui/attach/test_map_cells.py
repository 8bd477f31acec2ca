"""A segment as cells: what each cell shows, and that every live block stays visible."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gputui.model.attached.analysis import Owner
from gputui.model.attached.tensors import Category
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.attach.map.cells import LIVE, runs_of_all, runs_to_scale, spans_of
from gputui.ui.drawing.meters import ASCII
from gputui.units import MIB
from tests.explain.maps import BASE, pool, segment
from tests.explain.named import named
from tests.ui.attach.layouts import OUT, STATE, WEIGHT, drawn, release_of

PRIVATE = (0, 1)
HELD = {"pools": [pool(PRIVATE, "torch.cuda.MemPool")]}
FREEABLE = {"pools": [pool(PRIVATE, "")]}


def to_scale(release, cells: int) -> str:
    return drawn(runs_to_scale(spans_of(release), release.segment.size_bytes, cells))


@pytest.mark.parametrize(
    ("blocks", "options", "more", "text"),
    [
        pytest.param([("live", 20)], {}, {}, "P─────────", id="one live block"),
        pytest.param(
            [("live", 10), ("live", 10)], {}, {}, "P────O────", id="neighbouring blocks have different letters"
        ),
        pytest.param([("live", 4), ("free", 16)], {}, {}, "P─s·······", id="free beside live is stuck"),
        pytest.param([("free", 20)], {}, {}, "c·········", id="a whole free segment is releasable"),
        pytest.param([("live", 10), ("waits", 10)], {}, {}, "P────p····", id="pending on a stream"),
        pytest.param([("free", 10), ("live", 10)], {"pool_id": PRIVATE}, HELD, "v····P────", id="free in a kept pool"),
        pytest.param(
            [("free", 20)], {"pool_id": PRIVATE}, FREEABLE, "c·········", id="free in a pool that nothing keeps"
        ),
        pytest.param([("free", 20)], {}, {"routed": [0]}, "s·········", id="a capture keeps the default pool"),
        pytest.param(
            [("live", 10), ("free", 90)],
            {"is_expandable": True},
            {},
            "Psc·······",
            id="only whole pages are releasable",
        ),
        pytest.param([("live", 0.1), ("free", 19.9)], {}, {}, "!s········", id="a live block too small for a cell"),
        pytest.param(
            [("free", 10.5), ("live", 0.1), ("free", 9.4)],
            {},
            {},
            "s····!s···",
            id="a small live block amid free space",
        ),
        pytest.param(
            [("live", 10.5), ("free", 9.5)], {}, {}, "P────s····", id="the edge of a visible block gets no mark"
        ),
        pytest.param(
            [("live", 19), ("free", 1)], {}, {}, "P─────────", id="free memory smaller than a cell is not drawn"
        ),
    ],
)
def test_a_cell_shows_the_block_that_fills_most_of_it(blocks, options, more, text):
    release = release_of(segment(*blocks, **options), owners=(WEIGHT, STATE), **more)
    assert to_scale(release, 10) == text


def test_a_segment_of_fewer_bytes_than_cells_fills_its_cells():
    release = release_of(segment(("live", 2 / MIB), ("free", 1 / MIB)), owners=())
    runs = runs_to_scale(spans_of(release), 3, 10)
    assert [run.cells for run in runs] == [7, 3]


def test_only_large_rounding_is_drawn():
    much = segment(("live", 20), slack=10 * 1024**2)
    assert to_scale(release_of(much, owners=(WEIGHT,)), 10) == "P────r────"
    assert to_scale(release_of(segment(("live", 20), slack=512), owners=(WEIGHT,)), 10) == "P─────────"


def test_every_category_has_its_own_letter_and_style():
    assert len({kind.letter for kind in LIVE.values()}) == len(Category)
    assert len({kind.role for kind in LIVE.values()}) == len(Category)
    for category, kind in LIVE.items():
        release = release_of(segment(("live", 20)), owners=(Owner(category, named("x")),))
        assert to_scale(release, 3) == f"{kind.letter}──"


@pytest.mark.parametrize(
    ("selected", "text"),
    [
        pytest.param(range(0), "P─O─s·····", id="no cursor"),
        pytest.param(range(1), "P─O─s·····", id="one cell keeps its letter"),
        pytest.param(range(4, 10), "P─O─[s···]", id="brackets around the block, the letter inside"),
    ],
)
def test_the_cursor_is_visible_without_colours_where_there_is_room(selected, text):
    release = release_of(segment(("live", 4), ("live", 4), ("free", 12)), owners=(WEIGHT, STATE))
    runs = runs_to_scale(spans_of(release), release.segment.size_bytes, 10)
    assert drawn(runs, selected=selected) == text


def test_ascii_cells_use_only_ascii_characters():
    release = release_of(segment(("live", 10), ("free", 10)), owners=(OUT,))
    runs = runs_to_scale(spans_of(release), release.segment.size_bytes, 10)
    assert drawn(runs, Appearance(ASCII)) == "A====s...."


BLOCKS = some.lists(
    some.tuples(some.sampled_from(["live", "free", "waits"]), some.integers(1, 4000).map(lambda size: size / 2048)),
    min_size=1,
    max_size=60,
)


@given(BLOCKS, some.integers(1, 200), some.booleans())
def test_a_segment_fills_its_cells_and_shows_that_it_holds_live_blocks(blocks, cells, is_expandable):
    release = release_of(segment(*blocks, is_expandable=is_expandable), owners=())
    spans = spans_of(release)
    runs = runs_to_scale(spans, release.segment.size_bytes, cells)
    assert sum(run.cells for run in runs) == cells
    assert [span.start for span in spans] == [0, *(span.end for span in spans[:-1])]
    assert spans[-1].end == release.segment.size_bytes
    if release.blockers:
        assert any(run.kind.is_live or run.has_small_blocker for run in runs)


@given(BLOCKS, some.integers(0, 100))
def test_every_block_of_a_zoomed_segment_has_a_cell(blocks, more):
    release = release_of(segment(*blocks), owners=())
    spans = spans_of(release)
    runs = runs_of_all(spans, 0, release.segment.size_bytes, len(spans) + more)
    assert sum(run.cells for run in runs) == len(spans) + more
    assert {run.block for run in runs if run.cells} == set(range(len(blocks)))
    assert release.segment.address == BASE
