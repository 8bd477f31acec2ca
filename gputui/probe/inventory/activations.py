"""To whom an activation belongs: the module in whose forward its node was made, and the variable whose graph keeps it.

A node that uses a parameter belongs to the module of that parameter. Any other node lies between a producer and a
consumer, the nearest nodes with parameters: it belongs to the deepest module that both are in. If that is the whole
model, or neither of their modules, the node follows its producer (a dropout after the last layer of a block).

A tensor is kept by the first variable whose tensor leads to the node that has saved it. A look visits each node once,
from whichever tensor comes first, maybe a result without a variable: so the edges are followed once more here.

Works on the ids of nodes and the names of modules alone, in the probe's thread, after the look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Tuple, TypeVar

from gputui.probe.guards.probe_thread import let_others_run
from gputui.probe.tensors.autograd import Inputs
from gputui.protocol.categories import ACTIVATION
from gputui.protocol.owners import Owner

WEIGHT_STEPS = 4
"""Through how many casts and views a weight may reach its operation."""
FARTHEST_STEPS = 64
"""How far away a producer or a consumer may be."""
_NODES_IN_TURN = 2000

Item = TypeVar("Item")
Place = Tuple[int, str]
"""How many steps away from a node the nearest nodes with parameters are, and the deepest module around them."""


def assign_modules(storages: Mapping[int, dict[str, Any]], graph: Mapping[str, Any], inputs: Inputs) -> None:
    """Set the `module` of each storage that the graph keeps; "" where no module can be told.

    `storages` are by address, `inputs` are the graph's.
    """
    if not graph["nodes"] or not any(graph["parameters"].values()):
        return
    layers = _Layers(graph, inputs)
    for address, node in _in_turns(graph["nodes"].items()):
        storage = storages.get(address)
        if storage is not None and storage["category"] == ACTIVATION:
            storage["module"] = layers.module_of(node)


def _in_turns(items: Iterable[Item]) -> Iterator[Item]:
    for number, item in enumerate(items, 1):
        yield item
        if number % _NODES_IN_TURN == 0:
            let_others_run()


class _Layers:
    def __init__(self, graph: Mapping[str, Any], inputs: Inputs) -> None:
        self._inputs = inputs
        self._parameters: Mapping[int, list[str]] = graph["parameters"]
        self._embeddings: set[int] = graph["embeddings"]
        self._views: set[int] = graph["views"]
        self._first_outputs: dict[int, int] = {}
        """For each node, the first node that has an input from it: most have only this one."""
        self._more_outputs: dict[int, list[int]] = {}
        for node in _in_turns(inputs):
            for source in inputs.of(node):
                if self._first_outputs.setdefault(source, node) != node:
                    self._more_outputs.setdefault(source, []).append(node)
        own = ((node, self._own_module(node)) for node in _in_turns(inputs))
        self._own: dict[int, str] = {node: module for node, module in own if module}
        """The modules of the nodes with parameters."""
        self._producers, self._consumers = self._places(self._outputs), self._places(inputs.of)
        self._afters: dict[int, Place | None] = {}
        self._modules: dict[int, str] = {}

    def module_of(self, node: int) -> str:
        module = self._modules.get(node)
        if module is None:
            module = self._modules[node] = self._own.get(node) or self._module_between(node)
        return module

    def _own_module(self, node: int) -> str | None:
        """The module whose parameter the node uses, directly or through casts and views; None without one."""
        sources = self._inputs.of(node)
        return next(filter(None, (self._by_weight(node, source) for source in sources)), None)

    def _by_weight(self, node: int, source: int) -> str | None:
        for _ in range(WEIGHT_STEPS):
            modules = self._parameters.get(source)
            if modules:  # several own a tied weight: the embedding is the first
                return modules[0] if node in self._embeddings else modules[-1]
            sources = self._inputs.of(source) if source in self._views else []
            if not sources:
                return None
            source = sources[0]
        return None

    def _module_between(self, node: int) -> str:
        sources = self._inputs.of(node)
        before = _module_of(map(self._producers.get, sources))
        if node not in self._first_outputs:  # as where a checkpoint saves its inputs: a layer has the same inputs
            return _module_of(map(self._after, sources)) or before or ""
        after = _module_of([self._after(node)])
        if before is None or after is None:
            return before or after or ""
        both = _common({before, after})
        return both if both == before or (both == after and "." in both) else before

    def _after(self, node: int) -> Place | None:
        """What is nearest to the outputs of a node: remembered, as it may be the input of thousands."""
        if node not in self._afters:
            self._afters[node] = _nearest_of(map(self._consumers.get, self._outputs(node)))
        return self._afters[node]

    def _outputs(self, node: int) -> list[int]:
        first = self._first_outputs.get(node)
        return [] if first is None else [first, *self._more_outputs.get(node, ())]

    def _places(self, onwards: Callable[[int], list[int]]) -> dict[int, Place]:
        """What is nearest to each node: one pass, from the nodes with parameters in the opposite direction."""
        places: dict[int, Place] = {}
        level = {node: _parent(module) for node, module in self._own.items()}
        for steps in range(FARTHEST_STEPS):
            places.update((node, (steps, module)) for node, module in level.items())
            reached: dict[int, set[str]] = {}
            for node, module in _in_turns(level.items()):
                for other in onwards(node):
                    if other not in places:
                        reached.setdefault(other, set()).add(module)
            level = {node: _common(modules) for node, modules in reached.items()}
        return places


def _nearest_of(places: Iterable[Place | None]) -> Place | None:
    known = list(filter(None, places))
    if not known:
        return None
    fewest_steps, _ = min(known)
    return fewest_steps, _common({module for steps, module in known if steps == fewest_steps})


def _module_of(places: Iterable[Place | None]) -> str | None:
    nearest = _nearest_of(places)
    return None if nearest is None else nearest[1]


def _parent(module: str) -> str:
    return module.rpartition(".")[0] or module


def _common(names: set[str]) -> str:
    """The deepest module that all of these are in."""
    first, *others = names
    common = first.split(".")
    for name in others:
        parts = name.split(".")
        length = 0
        while length < min(len(common), len(parts)) and common[length] == parts[length]:
            length += 1
        common = common[:length]
    return ".".join(common)


def assign_keepers(
    storages: Mapping[int, dict[str, Any]], graph: Mapping[str, Any], inputs: Inputs
) -> dict[Owner, int]:
    """Set `kept_by` of each storage that only a graph keeps; returns the number of operations in each owner's graph.

    `storages` are by address, `inputs` are the graph's. There is no number for a graph that was not visited as a whole.
    """
    keepers: dict[int, Owner] = {}
    operations: dict[Owner, int] = {}
    for root, owner in graph["roots"].items():
        stack = [root]
        while stack:
            node = stack.pop()
            if node in keepers or node not in inputs:
                continue
            keepers[node] = owner
            if len(keepers) % _NODES_IN_TURN == 0:
                let_others_run()
            sources = inputs.of(node)
            if sources:  # a leaf belongs to the module, not to a graph
                operations[owner] = operations.get(owner, 0) + 1
            stack += sources
    in_variables = graph["in_variables"]
    for address, node in graph["nodes"].items():
        storage = storages.get(address)
        if storage is not None and storage["category"] == ACTIVATION and address not in in_variables:
            storage["kept_by"] = keepers.get(node, ())
    abandoned = {graph["roots"].get(root) for root in graph["abandoned"]}
    return {owner: count for owner, count in operations.items() if owner not in abandoned}
