"""Corners of the allocator, each in a program of its own: what the probe says there, and what then happens."""

from __future__ import annotations

import pytest

from tests.scale import SCALE

pytestmark = pytest.mark.every_torch

MIB = 1024**2
LOOKS = 1000 * SCALE
ROOMS = 4 * SCALE

# name: (bytes said and given back, devices with a capture or routing, words that must stand among the problems)
EXACT = {
    "capture_by_hand": (0, [0], ""),
    "capture_in_another_thread": (0, [0], ""),
    "capture_on_the_other_device": (30 * MIB, [1], ""),
    "a_graph_not_captured": (30 * MIB, [], ""),
    "an_empty_pool_is_routed_to": (None, None, ""),
    "a_capture_that_has_ended_and_was_reset": (60 * MIB, [], ""),
    "a_capture_after_a_graph_that_was_reset": (30 * MIB, [0], ""),
    "a_pool_inside_a_graph": (0, [], ""),
    "a_pool_on_two_devices": (0, [], "on all"),
    "objects_hidden_by_gc_freeze": (0, [], "gc.freeze()"),
    "settings_changed_at_run_time": (30 * MIB, [], ""),
    "inside_inductors_pool": (None, None, ""),
}


@pytest.mark.parametrize(("name", "expected"), EXACT.items(), ids=EXACT.keys())
def test_what_is_said_is_what_is_given_back(run_program, name, expected):
    found = run_program("corners.py", name)
    given, routed, words = expected
    assert found["predicted"] == found["given"]
    assert given in (None, found["given"])
    assert routed in (None, found["routed"])
    assert any(words in sentence for sentence in found["problems"]) if words else found["problems"] == []


NOTHING = [[], None, None, None, False]


def test_before_cuda_there_is_nothing_to_read_and_reading_does_not_initialise_it(run_program):
    found = run_program("corners.py", "before_cuda")
    assert found == {"read": NOTHING, "initialized": False, "context": False}


def test_a_forked_child_reads_nothing_of_its_parent(run_program):
    assert run_program("corners.py", "after_a_fork") == {"child": repr(NOTHING), "parent": 2}


def test_the_generation_moves_with_every_change_and_only_then(run_program):
    first, same, made, freed, emptied = run_program("corners.py", "generation")["steps"]
    assert first == same < made < freed < emptied


def test_pinned_memory_is_what_pytorch_holds_of_it(run_program):
    found = run_program("corners.py", "pinned")
    assert found["pinned"] == found["made"]


@pytest.mark.long
@pytest.mark.parametrize("name", ["many_looks", "many_looks_with_history"])
def test_many_looks_leave_references_and_memory_as_they_were(run_program, name, record_property):
    record_property("count", f"{LOOKS} looks")
    found = run_program("corners.py", name, str(LOOKS))
    assert found["drift"] < 10
    assert found["grown_kib"] < 2048


def test_objects_are_walked_over_only_when_there_may_be_users_of_pools_to_find(run_program):
    assert run_program("corners.py", "walks_over_all_objects")["walks"] == [0, 1, 2]


def test_a_look_that_may_not_walk_keeps_pools_until_one_that_may_has_found_their_users(run_program):
    found = run_program("corners.py", "looks_that_may_not_walk")
    assert found["told"] == [[0, False, 1], [0, False, 0], [1, False, 0]]
    assert found["walks"] == 1


def test_routing_by_hand_is_noticed_by_the_pools_count(run_program):
    found = run_program("corners.py", "routed_by_hand")
    assert found["problems"] == ["Memory pool (0, 1) has users that cannot be seen from Python."]
    assert found["after"]["predicted"] == found["after"]["given"]


BACKENDS = {
    # PyTorch reads the backend at its import.
    "cudaMallocAsync": (
        "another_backend",
        {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync", "is_forked": False},
    ),
    "pluggable": ("an_allocator_of_its_own", {}),
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_another_backend_is_named_and_has_no_map(run_program, backend):
    name, variables = BACKENDS[backend]
    found = run_program("corners.py", name, **variables)
    assert (found["backend"], found["map"]) == (backend, None)


ROOM = {
    "native": ("", "exact"),
    "max_split": ("max_split_size_mb:40", "exact"),
    "roundup": ("roundup_power2_divisions:[64:8,256:4,>:1]", "exact"),
    "expandable": ("expandable_segments:True", "fits"),
    "large_pages": ("expandable_segments:True,large_segment_size_mb:32", "fits"),
}


@pytest.mark.long
@pytest.mark.parametrize(("configuration", "how"), ROOM.values(), ids=ROOM.keys())
def test_the_largest_requests_fit_and_for_native_segments_one_byte_more_does_not(
    run_program, configuration, how, record_property
):
    record_property("count", f"{ROOMS} layouts")
    found = run_program("random_room.py", "1", str(ROOMS), how, PYTORCH_CUDA_ALLOC_CONF=configuration)
    assert found["mismatches"] == []
    assert found["tried"] >= 2 * ROOMS
