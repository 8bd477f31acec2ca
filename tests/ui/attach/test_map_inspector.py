"""The inspector: the facts about a block, and what would happen to its memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.model.attached.allocator import CallSite
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.attach.map.inspector import draw_below, draw_beside, inspect
from gputui.ui.drawing.line import text_of, width_of
from tests.explain.maps import BASE, pool, segment
from tests.ui.attach.layouts import OUT, STATE, WEIGHT, release_of

MIB = 1024**2
PAGE = 20 * MIB
KEPT = {"pools": [pool((0, 1), "torch.cuda.MemPool")]}
FRAGMENTED = segment(("live", 2), ("free", 12), ("live", 4), ("free", 2))


@pytest.mark.parametrize(
    ("release", "block", "sentence"),
    [
        pytest.param(
            release_of(segment(("live", 2), ("free", 18)), owners=(WEIGHT,)),
            0,
            "Freeing it would let empty_cache() return 20.0 MiB more.",
            id="the only live block",
        ),
        pytest.param(
            release_of(FRAGMENTED, owners=(WEIGHT, OUT)),
            0,
            "Freeing it returns nothing: another live block holds the rest of its segment.",
            id="one of two live blocks",
        ),
        pytest.param(
            release_of(FRAGMENTED, owners=(WEIGHT, OUT)),
            1,
            "Stuck: held by A out (train.py:7) (4.0 MiB), P fc.weight (2.0 MiB).",
            id="stuck, largest blocker first",
        ),
        pytest.param(
            release_of(segment(*[("live", 1), ("free", 1)] * 5)),
            1,
            "Stuck: held by U unattributed (1.0 MiB), U unattributed (1.0 MiB), U unattributed (1.0 MiB) and 2 more.",
            id="many blockers",
        ),
        pytest.param(release_of(segment(("free", 20))), 0, "empty_cache() returns it.", id="releasable"),
        pytest.param(
            release_of(segment(("live", 5), ("free", 45), ("live", 10), is_expandable=True), owners=(WEIGHT, OUT)),
            2,
            "Freeing it would let empty_cache() return 20.0 MiB more.",
            id="the last page of an expandable segment",
        ),
        pytest.param(
            release_of(segment(("live", 20), ("free", 8), ("live", 12), is_expandable=True), owners=(WEIGHT, OUT)),
            1,
            "Stuck: held by A out (train.py:7) (12.0 MiB).",
            id="only blocks on the same page hold it",
        ),
        pytest.param(
            release_of(segment(("live", 2), ("waits", 18))),
            1,
            "It becomes free when the work on another stream that uses it has finished.",
            id="pending",
        ),
        pytest.param(
            release_of(segment(("free", 20), pool_id=(0, 1)), **KEPT),
            0,
            "empty_cache() does not return it: torch.cuda.MemPool keeps its pool; otherwise 20.0 MiB of the segment"
            " would be returned.",
            id="free in a kept pool",
        ),
        pytest.param(
            release_of(segment(("live", 20), pool_id=(0, 1)), **KEPT),
            0,
            "Freeing it returns nothing: torch.cuda.MemPool keeps its pool.",
            id="live in a kept pool",
        ),
        pytest.param(
            release_of(segment(("live", 2), ("free", 18)), routed=[0]),
            1,
            "empty_cache() does not return it: a capture is in progress on this device.",
            id="during a capture",
        ),
    ],
)
def test_it_shows_what_holds_the_memory_and_what_would_release_it(release, block, sentence):
    assert [text for text, _ in inspect(release, block, PAGE).sentences] == [sentence]


def test_a_partly_releasable_free_block_shows_both_parts():
    release = release_of(segment(("live", 5), ("free", 55), is_expandable=True), owners=(WEIGHT,))
    inspection = inspect(release, 1, PAGE)
    assert inspection.name == "stuck and releasable"
    assert [text for text, _ in inspection.sentences] == [
        "Stuck: held by P fc.weight (5.0 MiB).",
        "empty_cache() returns it.",
    ]


def test_all_facts_of_a_live_block():
    release = release_of(segment(("live", 2), ("free", 18), stream=0x5500, slack=512), owners=(OUT,))
    inspection = inspect(release, 0, PAGE)
    assert (inspection.letter, inspection.name) == ("A", "out (train.py:7)")
    assert dict(inspection.facts) == {
        "address": f"{BASE:#x}",
        "size": "2.0 MiB (2,097,152 B)",
        "requested": "2,096,640 B, 512 B of rounding",
        "state": "live",
        "block": "1 of 2",
        "category": "activation",
        "tensor": "Tensor (8,) float32",
        "saved by": "MulBackward0",
        "stream": "0x5500",
        "pool": "large",
        "segment": f"{BASE:#x}, 20.0 MiB, 18.0 MiB stuck",
    }


def test_a_free_block_shows_no_request_and_no_tensor():
    facts = dict(inspect(release_of(segment(("live", 2), ("free", 18))), 1, PAGE).facts)
    assert not {"requested", "tensor", "category", "saved by"} & set(facts)


@pytest.mark.parametrize(("width", "height"), [(80, 7), (118, 7), (60, 3)])
def test_below_the_map_the_prediction_takes_precedence_over_facts(width, height):
    lines = draw_below(inspect(release_of(FRAGMENTED, owners=(STATE, OUT)), 0, PAGE), width, height, Appearance())
    assert len(lines) <= height
    assert all(width_of(line) <= width for line in lines)
    assert "Freeing it returns nothing" in text_of(lines)
    assert STATE.name in text_of(lines[:1])


def test_beside_the_map_every_fact_is_shown():
    inspection = inspect(release_of(FRAGMENTED, owners=(STATE, OUT)), 0, PAGE)
    lines = draw_beside(inspection, 44, Appearance())
    assert all(width_of(line) <= 44 for line in lines)
    assert all(label in text_of(lines) for label, _ in inspection.facts)


def test_recorded_history_shows_the_call_site_of_a_block():
    plain = segment(("live", 2), ("free", 18))
    site = CallSite("/home/ana/project/models/gpt.py", 23, "forward")
    blocks = (replace(plain.blocks[0], site=site), *plain.blocks[1:])
    release = release_of(replace(plain, blocks=blocks), owners=(WEIGHT,))
    inspection = inspect(release, 0, None)
    assert ("call site", "models/gpt.py:23 in forward") in inspection.facts
    assert "call site" not in dict(inspect(release, 1, None).facts)
    assert "call site   models/gpt.py:23 in forward" in text_of(draw_beside(inspection, 44, Appearance()))
    assert "models/gpt.py:23 in forward" in text_of(draw_below(inspection, 80, 7, Appearance()))
