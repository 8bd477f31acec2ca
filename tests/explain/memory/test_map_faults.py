"""A map that contradicts itself is left out with a sentence, and everything else in the message is kept."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest

from gputui.explain.memory.map_faults import fault_of, fault_of_traces, without_faulty_map
from gputui.model.attached.target import ActionName, ActionResult, Cost, Look
from gputui.model.attached.trace import ALLOC, OUT_OF_MEMORY, Trace
from gputui.units import MIB
from tests.explain.maps import BASE, layout, segment, statistics

WHOLE = segment(("live", 2), ("free", 18))
FIRST, SECOND = WHOLE.blocks

FAULTS = {
    "a hole": (replace(WHOLE, blocks=(FIRST, replace(SECOND, address=SECOND.address + 512))), "do not follow"),
    "an overlap": (replace(WHOLE, blocks=(FIRST, replace(SECOND, address=SECOND.address - 512))), "do not follow"),
    "an empty block": (replace(WHOLE, blocks=(FIRST, replace(SECOND, size_bytes=0))), "do not follow"),
    "a negative block": (replace(WHOLE, blocks=(FIRST, replace(SECOND, size_bytes=-1))), "do not follow"),
    "too much requested": (replace(WHOLE, blocks=(replace(FIRST, requested_bytes=1 << 40), SECOND)), "were requested"),
    "too little requested": (replace(WHOLE, blocks=(replace(FIRST, requested_bytes=-1), SECOND)), "were requested"),
    "a rest": (replace(WHOLE, size_bytes=24 * MIB), "do not fill"),
    "no blocks": (replace(WHOLE, blocks=()), "do not fill"),
    "an empty segment": (replace(WHOLE, blocks=(), size_bytes=0), "do not fill"),
    "a negative address": (segment(("free", 2), address=-1), "do not fill"),
    "an address beyond all": (segment(("free", 2), address=1 << 64), "no memory can be"),
    "a negative stream": (replace(WHOLE, stream=-1), "a stream that cannot be"),
    "a stream beyond all": (replace(WHOLE, stream=1 << 64), "a stream that cannot be"),
    "more than a machine has": (
        replace(WHOLE, blocks=(replace(FIRST, size_bytes=1 << 62),), size_bytes=1 << 62),
        "more than any machine has",
    ),
}


@pytest.mark.parametrize(("faulty", "words"), FAULTS.values(), ids=FAULTS)
def test_an_impossible_segment_is_a_fault(faulty, words):
    assert words in fault_of(layout(segment(("live", 2), address=BASE - (1 << 40)), faulty))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"page": 0}, "pages of 0 bytes"),
        ({"page": -1}, "pages of -1 bytes"),
        ({"roundup_divisions": (1, 2)}, "2 roundup divisions instead of 16"),
    ],
    ids=["no page", "a negative page", "too few divisions"],
)
def test_impossible_settings_are_a_fault(settings, words):
    assert fault_of(layout(WHOLE, **settings)) == words


def test_overlapping_segments_of_one_device_are_a_fault():
    later = segment(("free", 20), address=BASE + 19 * MIB)
    assert "overlap" in fault_of(layout(later, WHOLE))
    assert fault_of(layout(replace(later, device=1), WHOLE)) == ""


def test_a_possible_map_has_no_fault():
    stale = replace(WHOLE, blocks=(FIRST, replace(SECOND, requested_bytes=1 << 50)))
    neighbour = segment(("waits", 2), ("live", 3), address=BASE + 20 * MIB, is_expandable=True)
    assert fault_of(layout(stale, neighbour, roundup_divisions=(1,) * 16)) == ""


def test_a_look_loses_only_its_faulty_map():
    faulty = layout(FAULTS["a rest"][0])
    look = Look(1.0, (statistics(faulty),), faulty.settings, faulty, None, Cost(1.0, 1.0))
    shown = without_faulty_map(look)
    assert shown.map is None
    (problem,) = shown.problems
    assert problem.text == (
        "The allocator's map is not shown, because it contradicts itself: "
        f"the blocks of the segment at {BASE:#x} do not fill it."
    )
    assert replace(shown, map=faulty, problems=()) == look
    whole = replace(look, map=layout(WHOLE))
    assert without_faulty_map(whole) is whole


def test_the_result_of_an_action_loses_only_its_faulty_map():
    result = ActionResult(1.0, ActionName.EMPTY_CACHE, 0.1, (), map=layout(FAULTS["a hole"][0]))
    assert without_faulty_map(result) == replace(result, map=None)


def traces_of(*events):
    actions = bytes(action for action, _ in events)
    columns = {name: array("Q", [0] * len(events)) for name in ("addresses", "streams", "times_us")}
    sizes = array("Q", [size for _, size in events])
    return (Trace(0, actions, sizes_bytes=sizes, stacks=array("q", [-1] * len(events)), **columns),)


def test_traces_whose_sizes_no_machine_has_are_a_fault():
    assert fault_of_traces(traces_of((ALLOC, 1 << 40), (OUT_OF_MEMORY, 1 << 62))) == ""
    assert "more than any machine has" in fault_of_traces(traces_of((ALLOC, 1 << 60), (ALLOC, 1 << 60)))
