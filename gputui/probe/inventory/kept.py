"""Through which variable's graph a saved tensor is kept: the first whose tensor leads to the node that has saved it.

A look visits each node once, from whichever tensor comes first; that can be an intermediate result without a variable.
So this follows the ids of the nodes alone, in the probe's thread, after the look.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gputui.probe.guards.probe_thread import let_others_run
from gputui.probe.tensors.autograd import Inputs

_NODES_IN_TURN = 2000


def assign_keepers(storages: Mapping[int, dict[str, Any]], graph: Mapping[str, Any], inputs: Inputs) -> dict[str, int]:
    """Set `kept_by` of each storage that only a graph keeps; returns the number of operations by variable.

    `storages` are by address, `inputs` are the graph's. Variables whose graph was not visited as a whole have none.
    """
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
                let_others_run()
            sources = inputs.of(node)
            if sources:  # a leaf belongs to the module, not to a graph
                operations[label] = operations.get(label, 0) + 1
            stack += sources
    in_variables = graph["in_variables"]
    for address, node in graph["nodes"].items():
        storage = storages.get(address)
        if storage is not None and storage["category"] == "activation" and address not in in_variables:
            storage["kept_by"] = keepers.get(node, "")
    abandoned = {graph["roots"].get(root) for root in graph["abandoned"]}
    return {label: count for label, count in operations.items() if label not in abandoned}
