"""The containers that a look describes: counted by the names of the tensors in them."""

from __future__ import annotations

from gputui.probe.containers import Root, add_graphs
from gputui.probe.growing_lines import VARIABLE


def test_two_containers_of_the_same_name_are_both_described():
    described = [
        {"ident": ident, "name": "HISTORY", "variable": "", "growth": ([], "HISTORY", VARIABLE, {})} for ident in (1, 2)
    ]
    roots = [Root(name, "", name, has_graph=False) for name in ("HISTORY[0]", "HISTORY[1]")]
    assert [(container["ident"], container["read"]) for container in add_graphs(described, roots, {})] == [
        (1, 2),
        (2, 2),
    ]
