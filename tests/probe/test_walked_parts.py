"""Which parts of a graph a look has visited as a whole, of which the next one reads nothing again."""

import pytest

from gputui.probe.tensors.autograd import Inputs, WalkedParts

PLUS, LAYER, BEFORE, LEAF = 1, 2, 3, 4
"""A residual layer: the sum of a layer's output and of its input, which is the output of what stands before."""


def a_look(edges, *, passed=(), unread=(), is_cut=True):
    flat = [number for node, sources in edges.items() for number in (node, len(sources), *sources)]
    numbers = {node: node * 100 for node in edges if node != LEAF} | {node: node * 100 for node in passed}
    return {"numbers": numbers, "passed": set(passed), "unread": set(unread), "is_cut": is_cut}, Inputs(flat)


@pytest.mark.parametrize(
    ("edges", "numbers"),
    [
        pytest.param({PLUS: [BEFORE, LAYER], BEFORE: []}, {300}, id="a side of a sum"),
        pytest.param({PLUS: [BEFORE, LAYER], BEFORE: [], LAYER: [BEFORE, LEAF], LEAF: []}, {100}, id="all"),
        pytest.param({PLUS: [BEFORE, LAYER], LAYER: [BEFORE, LEAF], LEAF: []}, set(), id="nothing below is whole"),
        pytest.param({LAYER: [BEFORE, BEFORE], BEFORE: []}, {200}, id="two inputs that are one"),
    ],
)
def test_what_is_visited_as_a_whole_is_known_by_its_topmost_node(edges, numbers):
    parts = WalkedParts()
    parts.note(*a_look(edges))
    assert parts.numbers == numbers


def test_a_part_that_was_passed_over_makes_what_is_above_it_whole():
    parts = WalkedParts()
    parts.note(*a_look({BEFORE: []}))
    parts.note(*a_look({PLUS: [LAYER, BEFORE], LAYER: [BEFORE]}, passed=[BEFORE]))
    assert PLUS * 100 in parts.numbers


def test_a_node_whose_packed_objects_were_not_read_is_visited_again():
    parts = WalkedParts()
    parts.note(*a_look({BEFORE: []}, unread=[BEFORE]))
    assert parts.numbers == set()


def test_a_look_that_has_come_to_the_end_is_the_last_of_its_round():
    parts = WalkedParts()
    parts.note(*a_look({BEFORE: []}))
    parts.note(*a_look({PLUS: [BEFORE]}, passed=[BEFORE], is_cut=False))
    assert parts.numbers == set()
