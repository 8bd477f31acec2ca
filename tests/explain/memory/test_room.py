"""Rounding by PyTorch's rules, and the largest request that would succeed; tests/probe compares the real allocator."""

from __future__ import annotations

import pytest

from gputui.explain.memory.release import predict_device
from gputui.explain.memory.room import room
from gputui.explain.memory.rounding import largest_within, rounded_bytes, segment_bytes
from gputui.units import GIB, KIB, MIB
from tests.explain.maps import BASE, layout, segment, settings

SIXTEEN_OF_FOUR = (4,) * 16
ROUNDED = {
    "one byte": (1, (), 512),
    "a multiple of 512 stays": (1024, (), 1024),
    "one byte more": (1025, (), 1536),
    "quarters of a power of two": (5 * MIB + 1, SIXTEEN_OF_FOUR, 6 * MIB),
    "a power of two stays": (8 * MIB, SIXTEEN_OF_FOUR, 8 * MIB),
    "too small to divide": (2000, SIXTEEN_OF_FOUR, 2048),
    "an interval without divisions": (5 * MIB + 1, (4, 4, 0) + (4,) * 13, 5 * MIB + 512),
}


@pytest.mark.parametrize(("asked", "divisions", "expected"), ROUNDED.values(), ids=ROUNDED.keys())
def test_a_request_is_rounded(asked, divisions, expected):
    assert rounded_bytes(settings(roundup_divisions=divisions), asked) == expected


@pytest.mark.parametrize("divisions", [(), SIXTEEN_OF_FOUR, (8,) * 16], ids=["none", "quarters", "eighths"])
@pytest.mark.parametrize("size", [512, 5000, MIB, 5 * MIB, 20 * MIB, 3 * GIB + 512])
def test_the_largest_request_within_a_size_fits_and_the_next_does_not(size, divisions):
    made = settings(roundup_divisions=divisions)
    largest = largest_within(made, size)
    assert rounded_bytes(made, largest) <= size < rounded_bytes(made, largest + 1)


SEGMENTS = {
    "a small request": (700 * KIB, 2 * MIB),
    "a large one": (MIB + 1, 20 * MIB),
    "from 10 MiB in steps of 2 MiB": (11 * MIB, 12 * MIB),
}


@pytest.mark.parametrize(("asked", "expected"), SEGMENTS.values(), ids=SEGMENTS.keys())
def test_a_segment_is_larger_than_the_request(asked, expected):
    assert segment_bytes(settings(), asked) == expected


def find(*segments, free: float = 0, **keywords):
    made = layout(*segments, **keywords)
    return room(made, predict_device(made, 0), device_free_bytes=int(free * MIB), device_total_bytes=80 * GIB)


# name: segments, MiB free on the device, map's keywords, (MiB now, MiB after a release)
ROOM = {
    "an empty process can have the free memory, in steps of 2 MiB": ([], 101.5, {}, (100, 100)),
    "below 10 MiB free only a small segment fits": ([], 9, {}, (1, 1)),
    "below 2 MiB free nothing does": ([], 1.5, {}, (0, 0)),
    "a free block can be used": ([segment(("live", 10), ("free", 60))], 4, {}, (60, 60)),
    "a release adds the cache to the free memory": ([segment(("free", 60))], 40, {}, (60, 100)),
    "a block of another stream cannot be used": ([segment(("free", 60), stream=7)], 4, {}, (1, 64)),
    "a block of a private pool cannot be used": ([segment(("free", 60), pool_id=(0, 1))], 4, {}, (1, 1)),
    "a block of the small pool serves small requests": (
        [segment(("live", 0.5), ("free", 1.5), is_small=True)], 0, {}, (1, 1),
    ),
    "expandable segments grow behind their last live block": (
        [segment(("live", 25), ("free", 15), is_expandable=True)], 30, {"is_expandable": True}, (35, 35),
    ),
    "an expandable release returns pages and asks for them again": (
        [segment(("live", 25), ("free", 55), is_expandable=True)], 30, {"is_expandable": True}, (75, 75),
    ),
    "expandable pages released elsewhere help": (
        [
            segment(("live", 5), ("free", 55), ("live", 5), is_expandable=True),
            segment(("live", 20), address=BASE + GIB, is_expandable=True),
        ],
        30, {"is_expandable": True}, (55, 60),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("segments", "free", "keywords", "expected"), ROOM.values(), ids=ROOM.keys())
def test_the_largest_request(segments, free, keywords, expected):
    room = find(*segments, free=free, **keywords)
    assert (room.now_bytes / MIB, room.after_release_bytes / MIB) == expected
