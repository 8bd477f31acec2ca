"""The containers that a look describes: counted by the names of the tensors in them."""

from __future__ import annotations

from typing import Any

import pytest

from gputui.probe.search.containers import SENT_AT_MOST, Roots, add_graphs
from gputui.probe.search.growing_lines import VARIABLE


@pytest.mark.parametrize("program", ["with_a_backward_pass", "without_a_backward_pass"])
def test_the_operations_of_kept_graphs_are_counted_in_every_look(run_once, program):
    for containers in run_once("kept_graphs.py")[program]:
        (losses,) = (container for container in containers if container["name"] == "losses")
        assert (losses["elements"], losses["graphs"]) == (5, 5)
        assert losses["nodes"] == losses["walked"] * 101 > 0, losses


def test_exceptions_in_a_long_list_that_grows_keep_their_name_from_look_to_look(run_program):
    looks = run_program("many_exceptions.py")
    assert looks[-1]["named"] == looks[-1]["elements"] > 200
    named = [look["named"] for look in looks]
    assert named == sorted(named), looks
    assert min(look["read"] for look in looks) > 64, "a look reads on in turn, beside the newest 64"
    assert {keeper for look in looks for keeper in look["keepers"]} == {"exception"}


def described_as(ident: int, name: str, elements: int, *, is_unread: bool = False) -> dict[str, Any]:
    """A container in a variable of a module, before its elements are counted."""
    growth: tuple[object, ...] = ([], name, VARIABLE, {})
    fields = {"ident": ident, "name": name, "variable": "", "elements": elements}
    return {**fields, "growth": growth, "is_unread": is_unread}


def test_two_containers_of_the_same_name_are_both_described():
    described = [described_as(ident, "HISTORY", 2) for ident in (1, 2)]
    names, places = ["HISTORY[0]", "HISTORY[1]"], ["", ""]
    roots = Roots(names, places, names, places, [False, False])
    assert [(container["ident"], container["read"]) for container in add_graphs(described, roots, {}, {})] == [
        (1, 2),
        (2, 2),
    ]


def test_a_long_list_is_described_even_if_little_of_it_was_read():
    inner = [f"states[{number}]" for number in range(SENT_AT_MOST)]
    described = [
        described_as(0, "states", 500),
        *(described_as(ident, name, 25) for ident, name in enumerate(inner, 1)),
    ]
    names = [f"{name}[{number}]" for name in inner for number in range(25)]
    places = [""] * len(names)
    sent = add_graphs(described, Roots(names, places, names, places, [False] * len(names)), {}, {})
    assert (sent[0]["name"], len(sent)) == ("states", SENT_AT_MOST)


def test_a_list_of_tensors_without_time_for_any_is_described_by_its_length():
    described = [described_as(1, "unread", 90, is_unread=True), described_as(2, "of_what_models_own", 80)]
    (sent,) = add_graphs(described, Roots([], [], [], [], []), {}, {})
    assert (sent["name"], sent["elements"], sent["read"]) == ("unread", 90, 0)
