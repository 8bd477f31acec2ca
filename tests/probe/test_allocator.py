"""Corner cases of the allocator, each in its own program: what the probe predicts, and what then happens."""

from __future__ import annotations

import pytest

from tests.scale import scaled

pytestmark = pytest.mark.every_torch

MIB = 1024**2
LOOKS = scaled(100, 1000)
ROOMS = scaled(2, 4)

# name: (bytes predicted and released, devices with a capture or routing, words that a problem must contain)
EXACT = {
    "capture_by_hand": (0, [0], ""),
    "capture_in_another_thread": (0, [0], ""),
    "capture_on_the_other_device": (30 * MIB, [1], ""),
    "a_graph_not_captured": (30 * MIB, [], ""),
    "an_empty_pool_is_routed_to": (None, None, ""),
    "a_capture_that_has_ended_and_was_reset": (60 * MIB, [], "without a finished capture"),
    "a_capture_after_a_graph_that_was_reset": (30 * MIB, [0], "without a finished capture"),
    "a_pool_inside_a_graph": (0, [], ""),
    "a_pool_on_two_devices": (0, [], "on all"),
    "objects_hidden_by_gc_freeze": (0, [], "gc.freeze()"),
    "settings_changed_at_run_time": (30 * MIB, [], ""),
    "inside_inductors_pool": (None, None, ""),
}


@pytest.mark.parametrize(("name", "expected"), EXACT.items(), ids=EXACT.keys())
def test_the_predicted_bytes_are_released(run_program, name, expected):
    result = run_program("corners.py", name)
    released, routed, words = expected
    assert result["predicted"] == result["released"]
    assert released in (None, result["released"])
    assert routed in (None, result["routed"])
    assert any(words in sentence for sentence in result["problems"]) if words else result["problems"] == []


def test_where_a_capture_may_have_failed_the_forecast_is_a_range(run_program):
    """With the failed graph alive, without it, and after the cache was emptied, which PyTorch refuses or not."""
    looks = run_program("corners.py", "a_capture_that_failed")["looks"]
    for (least, most), released, problems in looks:
        assert least <= released <= most
        assert (least < most) == bool(problems)
    assert "without a finished capture" in looks[0][2][0]
    assert looks[0][0][0] < looks[0][0][1]


def test_the_graphs_of_a_compiled_function_are_forecast(run_program):
    looks = run_program("corners.py", "graphs_of_a_compiled_function")["looks"]
    assert all(least <= released <= most for (least, most), released, _ in looks)
    assert any(most for (_, most), _, _ in looks)


def test_an_emptied_cache_shows_that_no_capture_failed(run_program):
    """The pool of a graph that is gone is in doubt at first, and no longer once PyTorch has emptied its cache."""
    looks = run_program("corners.py", "a_graph_that_is_gone")["looks"]
    assert [most for (_, most), _, _ in looks] == [released for _, released, _ in looks]
    assert looks[1] == [[30 * MIB, 30 * MIB], 30 * MIB, []]


NOTHING = [[], None, None, None, False]


def test_reading_before_cuda_initialisation_returns_nothing_and_does_not_trigger_it(run_program):
    result = run_program("corners.py", "before_cuda")
    assert result == {"read": NOTHING, "initialized": False, "context": False}


def test_a_forked_child_does_not_read_its_parents_allocator(run_program):
    assert run_program("corners.py", "after_a_fork") == {"child": repr(NOTHING), "parent": 2}


def test_the_generation_grows_with_every_change_and_only_then(run_program):
    first, same, made, freed, emptied = run_program("corners.py", "generation")["steps"]
    assert first == same < made < freed < emptied


def test_pinned_bytes_are_those_that_pytorch_holds(run_program):
    result = run_program("corners.py", "pinned")
    assert result["pinned"] == result["made"]


@pytest.mark.long
@pytest.mark.parametrize("name", ["many_looks", "many_looks_with_history"])
def test_many_looks_leak_no_references_or_memory(run_program, name, record_property):
    record_property("count", f"{LOOKS} looks")
    result = run_program("corners.py", name, str(LOOKS))
    assert result["drift"] < 10
    assert result["grown_kib"] < 2048


def test_a_look_walks_over_objects_only_if_pools_may_have_new_users(run_program):
    assert run_program("corners.py", "walks_over_all_objects")["walks"] == [0, 1, 2]


def test_without_a_walk_pools_stay_held_until_a_walk_finds_their_users(run_program):
    result = run_program("corners.py", "looks_that_may_not_walk")
    unlooked, *looked = result["looks"]
    assert unlooked[:2] == [0, False]
    assert unlooked[2]
    assert looked == [[0, False, 0], [1, False, 0]]
    assert result["walks"] == 1


def test_manual_routing_is_detected_by_the_pools_use_count(run_program):
    result = run_program("corners.py", "routed_by_hand")
    assert result["problems"] == ["Memory pool (0, 1) has users that cannot be seen from Python."]
    assert result["after"]["predicted"] == result["after"]["released"]


BACKENDS = {
    # PyTorch reads the backend when it is imported.
    "cudaMallocAsync": (
        "another_backend",
        {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync", "is_forked": False},
    ),
    "pluggable": ("an_allocator_of_its_own", {}),
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_other_backends_are_named_and_have_no_map(run_program, backend):
    name, variables = BACKENDS[backend]
    result = run_program("corners.py", name, **variables)
    assert (result["backend"], result["map"]) == (backend, None)


ROOM = {
    "native": ("", "exact"),
    "max_split": ("max_split_size_mb:40", "exact"),
    "roundup": ("roundup_power2_divisions:[64:8,256:4,>:1]", "exact"),
    "expandable": ("expandable_segments:True", "fits"),
    "large_pages": ("expandable_segments:True,large_segment_size_mb:32", "fits"),
}


@pytest.mark.long
@pytest.mark.parametrize(("configuration", "how"), ROOM.values(), ids=ROOM.keys())
def test_the_largest_predicted_requests_fit_and_are_exact_for_native_segments(
    run_program, configuration, how, record_property
):
    record_property("count", f"{ROOMS} layouts")
    result = run_program("random_room.py", "1", str(ROOMS), how, PYTORCH_CUDA_ALLOC_CONF=configuration)
    assert result["mismatches"] == []
    assert result["tried"] >= 2 * ROOMS
