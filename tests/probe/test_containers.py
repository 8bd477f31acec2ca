"""The containers that a look describes: counted by the names of the tensors in them."""

from __future__ import annotations

import pytest

from gputui.probe.containers import SENT_AT_MOST, Roots, add_graphs
from gputui.probe.growing_lines import VARIABLE


@pytest.mark.parametrize("program", ["with_a_backward_pass", "without_a_backward_pass"])
def test_the_operations_of_kept_graphs_are_counted_in_every_look(run_once, program):
    for containers in run_once("kept_graphs.py")[program]:
        (losses,) = (container for container in containers if container["name"] == "losses")
        assert (losses["elements"], losses["graphs"]) == (5, 5)
        assert losses["nodes"] == losses["walked"] * 101 > 0, losses


def test_two_containers_of_the_same_name_are_both_described():
    described = [
        {"ident": ident, "name": "HISTORY", "variable": "", "elements": 2, "growth": ([], "HISTORY", VARIABLE, {})}
        for ident in (1, 2)
    ]
    names, places = ["HISTORY[0]", "HISTORY[1]"], ["", ""]
    roots = Roots(names, places, names, places, [False, False])
    assert [(container["ident"], container["read"]) for container in add_graphs(described, roots, {}, {})] == [
        (1, 2),
        (2, 2),
    ]


def test_a_long_list_is_described_even_if_little_of_it_was_read():
    inner = [f"states[{number}]" for number in range(SENT_AT_MOST)]
    described = [
        {"ident": ident, "name": name, "variable": "", "elements": elements, "growth": ([], name, VARIABLE, {})}
        for ident, (name, elements) in enumerate([("states", 500), *((name, 25) for name in inner)])
    ]
    names = [f"{name}[{number}]" for name in inner for number in range(25)]
    places = [""] * len(names)
    sent = add_graphs(described, Roots(names, places, names, places, [False] * len(names)), {}, {})
    assert (sent[0]["name"], len(sent)) == ("states", SENT_AT_MOST)
