"""Through which variable's graph a saved tensor is kept: the first whose tensor leads to the node that has saved it.

A look visits each node once, from whichever tensor comes first; that can be an intermediate result without a variable.
So this follows the ids of the nodes alone, in the probe's thread, after the look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import sleep
from typing import Any

from gputui.probe.encoding import PAUSE_S

_NODES_IN_TURN = 2000


def assign_keepers(storages: Iterable[dict[str, Any]], graph: Mapping[str, Any]) -> dict[str, int]:
    """Set `kept_by` of each storage that only a graph keeps; returns the number of operations by variable.

    Variables whose graph was not visited as a whole have none.
    """
    inputs: Mapping[int, list[int]] = graph["inputs"]
    keepers: dict[int, str] = {}
    operations: dict[str, int] = {}
    for root, label in graph["roots"].items():
        stack = [root]
        while stack:
            node = stack.pop()
            if node in keepers or node not in inputs:
                continue
            keepers[node] = label
            if len(keepers) % _NODES_IN_TURN == 0:
                sleep(PAUSE_S)  # lets the program's threads run
            if inputs[node]:  # a leaf belongs to the module, not to a graph
                operations[label] = operations.get(label, 0) + 1
            stack += inputs[node]
    nodes, in_variables = graph["nodes"], graph["in_variables"]
    for storage in storages:
        address = storage["address"]
        if storage["category"] == "activation" and address in nodes and address not in in_variables:
            storage["kept_by"] = keepers.get(nodes[address], "")
    abandoned = {graph["roots"].get(root) for root in graph["abandoned"]}
    return {label: count for label, count in operations.items() if label not in abandoned}
