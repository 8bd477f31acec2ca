"""The prediction of empty_cache(): hand-made maps with the bytes that would be returned, and those that stay."""

from __future__ import annotations

import pytest

from gputui.explain.memory.release import forecast, predict, predict_device
from gputui.model.attached.analysis import Owner
from gputui.model.attached.tensors import Category
from gputui.units import MIB
from tests.explain.maps import layout, pool, segment
from tests.explain.named import named

PAGE = 20 * MIB
LIVE, FREE, WAITS = "live", "free", "waits"

# name: segment, map's keywords, (releasable, stuck, pending, private pool free)
CASES = {
    "a wholly free native segment is returned": (segment((FREE, 20)), {}, (20, 0, 0, 0)),
    "one live block keeps a native segment": (segment((LIVE, 1), (FREE, 19)), {}, (0, 19, 0, 0)),
    "a pending block is returned with its segment": (segment((FREE, 4), (WAITS, 16)), {}, (20, 0, 0, 0)),
    "a pending block beside a live one stays pending": (
        segment((LIVE, 4), (WAITS, 6), (FREE, 10)), {}, (0, 10, 6, 0),
    ),
    "whole free pages of an expandable segment are returned": (
        segment((LIVE, 25), (FREE, 35), is_expandable=True), {}, (20, 15, 0, 0),
    ),
    "a free run between live blocks returns its inner pages": (
        segment((LIVE, 1), (FREE, 78), (LIVE, 1), is_expandable=True), {}, (40, 38, 0, 0),
    ),
    "a run of free and pending blocks counts as one": (
        segment((LIVE, 15), (FREE, 10), (WAITS, 30), (FREE, 5), is_expandable=True), {}, (40, 5, 0, 0),
    ),
    "pending bytes outside whole pages stay pending": (
        segment((LIVE, 15), (WAITS, 10), (FREE, 15), is_expandable=True), {}, (20, 0, 5, 0),
    ),
    "small pools have pages of 2 MiB": (
        segment((LIVE, 1), (FREE, 5), is_expandable=True, is_small=True), {}, (4, 1, 0, 0),
    ),
    "the page size is a setting": (
        segment((LIVE, 1), (FREE, 63), is_expandable=True), {"page": 32 * MIB}, (32, 31, 0, 0),
    ),
    "a pool in use keeps its free memory": (
        segment((LIVE, 5), (FREE, 15), pool_id=(0, 1)), {"pools": [pool((0, 1), "torch.cuda.MemPool")]}, (0, 0, 0, 15),
    ),
    "a wholly free segment of a pool in use stays": (
        segment((FREE, 20), pool_id=(1, 0)), {"pools": [pool((1, 0), "torch.cuda.CUDAGraph")]}, (0, 0, 0, 20),
    ),
    "an unused pool is released like the default pools": (
        segment((FREE, 20), pool_id=(1, 0)), {"pools": [pool((1, 0), "")]}, (20, 0, 0, 0),
    ),
    "a live block keeps a segment of an unused pool": (
        segment((LIVE, 1), (FREE, 19), pool_id=(1, 0)), {"pools": [pool((1, 0), "")]}, (0, 19, 0, 0),
    ),
    "an unlisted pool is kept": (segment((FREE, 20), pool_id=(7, 0)), {}, (0, 0, 0, 20)),
    "a capture keeps the default pools": (segment((FREE, 20)), {"routed": [0]}, (0, 20, 0, 0)),
    "a capture keeps pending blocks": (segment((WAITS, 20)), {"routed": [0]}, (0, 0, 20, 0)),
    "a capture on another device changes nothing": (segment((FREE, 20)), {"routed": [1]}, (20, 0, 0, 0)),
    "a capture leaves unused pools releasable": (
        segment((FREE, 20), pool_id=(1, 0)), {"routed": [0], "pools": [pool((1, 0), "")]}, (20, 0, 0, 0),
    ),
    "a capture keeps an unused pool's pending blocks": (
        segment((FREE, 10), (WAITS, 10), pool_id=(1, 0)), {"routed": [0], "pools": [pool((1, 0), "")]}, (0, 10, 10, 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("made", "keywords", "expected"), CASES.values(), ids=CASES.keys())
def test_empty_cache_is_predicted_by_part(made, keywords, expected):
    parts = predict_device(layout(made, **keywords), 0).composition
    actual = (parts.releasable_bytes, parts.stuck_bytes, parts.pending_bytes, parts.private_pool_free_bytes)
    assert tuple(count / MIB for count in actual) == expected


@pytest.mark.parametrize(("made", "keywords", "expected"), CASES.values(), ids=CASES.keys())
def test_every_reserved_byte_is_in_one_part(made, keywords, expected):
    other = segment((LIVE, 3), (FREE, 3), address=1 << 40)
    assert predict_device(layout(made, other, **keywords), 0).composition.reserved_bytes == made.size_bytes + 6 * MIB


# name: segment, MiB that freeing each live block would release
PINS = {
    "the only live block releases a native segment": (segment((FREE, 5), (LIVE, 15)), [20]),
    "neither of two live blocks does": (segment((LIVE, 5), (FREE, 5), (LIVE, 10)), [0, 0]),
    "a pending block does not keep a native segment": (segment((LIVE, 5), (WAITS, 15)), [20]),
    "a live block in the middle joins two free runs": (
        segment((FREE, 30), (LIVE, 5), (FREE, 25), is_expandable=True), [20],
    ),
    "a live block across pages releases the pages it alone overlaps": (
        segment((LIVE, 10), (LIVE, 55), (FREE, 15), is_expandable=True), [0, 60],
    ),
    "two live blocks in one page hold it together": (
        segment((LIVE, 5), (LIVE, 5), (FREE, 10), is_expandable=True), [0, 0],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("made", "expected"), PINS.values(), ids=PINS.keys())
def test_freeing_a_blocker_would_release_its_stuck_memory(made, expected):
    (release,) = predict_device(layout(made), 0).segments
    assert [blocker.releases_bytes / MIB for blocker in release.blockers] == expected


def test_a_pool_in_use_has_its_holder_and_held_bytes():
    made = segment((FREE, 20), pool_id=(0, 1))
    (release,) = predict_device(layout(made, pools=[pool((0, 1), "torch.cuda.MemPool")]), 0).segments
    assert (release.held_by, release.held_bytes, release.releasable_bytes) == ("torch.cuda.MemPool", 20 * MIB, 0)


FREED = segment((FREE, 20)), segment((FREE, 40), pool_id=(1, 0), address=1 << 40)
RANGES = {
    "all is known": ({"pools": [pool((1, 0), "")]}, "60.0 MiB"),
    "a capture may have failed on the device": ({"pools": [pool((1, 0), "")], "unsure": [0]}, "up to 60.0 MiB"),
    "on another device": ({"pools": [pool((1, 0), "")], "unsure": [1]}, "60.0 MiB"),
    "a pool may be kept": ({"pools": [pool((1, 0), "", is_sure=False)]}, "20.0 MiB to 60.0 MiB"),
    "a pool may be free": ({"pools": [pool((1, 0), "not looked for", is_sure=False)]}, "20.0 MiB to 60.0 MiB"),
    "a capture is under way": ({"pools": [pool((1, 0), "", is_sure=False)], "routed": [0]}, "up to 40.0 MiB"),
}


@pytest.mark.parametrize(("keywords", "expected"), RANGES.values(), ids=RANGES.keys())
def test_what_is_in_doubt_is_a_range(keywords, expected):
    assert forecast(predict_device(layout(*FREED, **keywords), 0)) == expected


def test_blockers_have_their_owners():
    made = segment((LIVE, 1), (FREE, 19))
    owner = Owner(Category.PARAMETER, named("model.fc.weight"))
    (release,) = predict_device(layout(made), 0, {made.address: owner}).segments
    assert [blocker.owner for blocker in release.blockers] == [owner]


def test_devices_are_predicted_separately():
    releases = predict(layout(segment((FREE, 20)), segment((FREE, 2), device=1, address=1 << 40)))
    assert [(r.device, r.releasable_bytes // MIB) for r in releases] == [(0, 20), (1, 2)]


def test_rounding_is_block_size_minus_requested_size():
    parts = predict_device(layout(segment((LIVE, 4), (FREE, 16), slack=1000)), 0).composition
    assert (parts.requested_bytes, parts.rounding_bytes) == (4 * MIB - 1000, 1000)
