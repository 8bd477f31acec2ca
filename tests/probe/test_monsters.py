"""No stop exceeds its limit, whatever the program holds: counted in steps, and in calls of functions for each step."""

from itertools import pairwise

import pytest

from gputui.probe.names.memory import ENTRIES_AT_MOST, Memory
from tests.scale import at_night, sized

STEPS = 5000
OBJECTS = sized(150_000, 1_000_000)
"""More than all looks of a program come through."""
CALLS_PER_STEP, CALLS_BESIDE = 60, 30_000
"""How many calls of Python and C functions a step takes at most, and what each look calls beside its steps."""

GROWING = ("many_tensors_in_a_list", "many_losses_with_300_nodes_each", *at_night("many_tensors_in_a_dictionary"))
WITHOUT_TENSORS = ("a_dictionary_of_many_lists", *at_night("twice_as_many_objects"))
MONSTERS = (*GROWING, *WITHOUT_TENSORS, "five_thousand_modules", *at_night("one_graph_of_many_nodes"))


@pytest.fixture(scope="session")
def monsters(run_once):
    return run_once("monsters.py", str(OBJECTS), *MONSTERS)


@pytest.mark.long
@pytest.mark.parametrize("program", MONSTERS)
def test_no_look_takes_more_than_its_steps(monsters, program, record_property):
    record_property("count", f"{OBJECTS} objects")
    for look in monsters[program]:
        assert look["steps"] <= STEPS
        assert look["calls"] <= CALLS_PER_STEP * STEPS + CALLS_BESIDE, look


@pytest.mark.parametrize("program", GROWING)
def test_each_look_goes_on_where_the_last_one_stopped(monsters, program):
    looks = monsters[program]
    found = [look["all_storages"] for look in looks]
    assert all(later >= earlier + 1000 for earlier, later in pairwise(found)), found
    assert not any(look["is_complete"] for look in looks)


def test_all_parameters_of_five_thousand_modules_are_named_within_nine_looks(monsters):
    assert monsters["five_thousand_modules"][-1]["all_storages"] == 5000


@pytest.mark.parametrize("program", WITHOUT_TENSORS)
def test_what_leads_to_no_tensor_is_passed_over_in_later_looks(monsters, program):
    first, second, *_ = monsters[program]
    assert first["is_complete"]
    assert second["steps"] * 4 < first["steps"]


@pytest.mark.parametrize("program", WITHOUT_TENSORS)
def test_a_scan_that_would_take_too_long_is_left_out_with_a_sentence(monsters, program):
    *walks, scan = monsters[program]
    assert not scan["is_complete"]
    assert any("too many Python objects" in problem for problem in scan["problems"])
    assert not any(look["problems"] for look in walks)


def test_what_is_kept_without_a_map_is_bounded():
    memory = Memory()
    for first in range(0, 4 * ENTRIES_AT_MOST, ENTRIES_AT_MOST // 2):
        storages = [
            {"address": first + number, "device": -1, "size_bytes": 1, "category": "other", "keeper": ""}
            for number in range(ENTRIES_AT_MOST // 2)
        ]
        found = {
            "storages": storages,
            "by_address": {storage["address"]: storage for storage in storages},
        }
        memory.complete({**found, "is_complete": False, "known_sizes": [], "containers": []}, None)
    assert len(memory.entries) <= 2 * ENTRIES_AT_MOST
