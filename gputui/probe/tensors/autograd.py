"""Finds the tensors that autograd nodes save for the backward pass, without running the program's hooks.

Only `_raw_saved_*` attributes are read: `_saved_*` would run unpack hooks, and so repeat a checkpointed forward pass.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, NamedTuple

from gputui.probe.objects.attributes import AttributeReader
from gputui.probe.objects.plain import class_name, namespace_of, type_name
from gputui.probe.objects.torch_types import AnyObject, Node, Tensor, Torch
from gputui.probe.pace.meter import Meter
from gputui.probe.tensors.gradients import AtRest
from gputui.probe.tensors.wrapped_tensors import UNREADABLE

RAW = "_raw_saved_"

INPUTS = {
    "AddmmBackward0": {"mat1": 1, "mat2": 2},
    "MmBackward0": {"self": 0, "mat2": 1},
    "BmmBackward0": {"self": 0, "mat2": 1},
    "LinearBackward0": {"input": 0, "weight": 1},
    "ConvolutionBackward0": {"input": 0, "weight": 1},
    "EmbeddingBackward0": {"weight": 0},
}
"""The position of each saved argument among the inputs of operations for which autocast copies weights."""

COPY = "ToCopyBackward0"
VIEWS = frozenset({"TBackward0", "TransposeBackward0", "PermuteBackward0", "ViewBackward0", "UnsafeViewBackward0"})
VIEWS_AND_COPIES = VIEWS | {COPY}
EMBEDDING = "EmbeddingBackward0"
LEAF = "AccumulateGrad"
RELEASED_AFTER = 24
"""Where the first 24 nodes of a walk that could have saved tensors have none, a backward pass has released them."""
PARTS_AT_MOST = 1 << 16
"""With more parts than this, `WalkedParts` forgets all, and the next look walks the graph from its roots again."""
SPECIAL = VIEWS_AND_COPIES | {EMBEDDING, LEAF}


class Saved(NamedTuple):
    """A tensor saved for backward, its node, the node's operation ("AddmmBackward0") and the argument ("mat1")."""

    tensor: Tensor
    node: Node
    operation: str
    argument: str


class Inputs:
    """The ids of the nodes that each visited node has its inputs from: an index of the flat list `Graph.edges`.

    A list for each node would outlive the stop, and so bring Python's next garbage collection nearer.
    """

    def __init__(self, edges: list[int]) -> None:
        self._edges = edges
        self._places: dict[int, int] = {}
        place = 0
        while place < len(edges):
            self._places[edges[place]] = place + 2
            place += 2 + edges[place + 1]

    def __contains__(self, node: int) -> bool:
        return node in self._places

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def of(self, node: int) -> list[int]:
        """The ids of the nodes that `node` has its inputs from; [] if it has none or was not visited."""
        place = self._places.get(node)
        return [] if place is None else self._edges[place : place + self._edges[place - 1]]


class WalkedParts:
    """Which parts of graphs the last looks have visited, where one look has no time for whole graphs.

    A part is a node with all that it leads to. It is known by the node's sequence number, as neither the node's Python
    object nor its id lasts. PyTorch numbers nodes in each thread from 0: of a graph that several threads made, a part
    may be skipped that no look has visited.
    """

    def __init__(self) -> None:
        self.numbers: set[int] = set()

    def note(self, graph: Mapping[str, Any], inputs: Inputs) -> None:
        """Learn from one look: `graph` is its `SavedTensors.graph`, and `inputs` are made of the edges in it.

        After a look that had time for all that was left, all parts are forgotten: the next look begins at the roots.
        """
        if not graph["is_cut"] or len(self.numbers) > PARTS_AT_MOST:
            self.numbers.clear()
            return
        outputs = defaultdict(list)
        left = {}  # by node, how many of its inputs are not known to be visited whole, and 1 for unread packed objects
        for node in inputs:
            sources = inputs.of(node)
            left[node] = len(sources) + (node in graph["unread"])
            for source in sources:
                outputs[source].append(node)
        whole = [*graph["passed"], *(node for node, number in left.items() if not number)]
        for node in whole:
            for output in outputs[node]:
                left[output] -= 1
                if not left[output]:
                    whole.append(output)
        are_ends = (node for node in whole if not outputs[node] or any(map(left.get, outputs[node])))
        self.numbers |= {graph["numbers"][node] for node in are_ends if node in graph["numbers"]}


class Packed(NamedTuple):
    """What one node keeps in place of tensors.

    That is what saved-tensor hooks (checkpointing, offloading) have packed, with their unpack hooks, or what a custom
    function keeps on its `ctx`.
    """

    node: Node
    values: list[Any]


def can_read_saved(torch: Torch) -> bool:
    """Whether saved tensors can be read without running a hook: PyTorch 2.10 and newer."""
    return hasattr(getattr(torch._C._autograd, "SavedTensor", None), "data")


class Graph:
    """Walks autograd graphs. It keeps every visited node alive until it is dropped, as the ids of freed nodes recur."""

    def __init__(
        self, torch: Torch, attributes: AttributeReader, at_rest: AtRest, known: Set[int] = frozenset()
    ) -> None:
        self.nodes: dict[int, Any] = {}
        """The visited nodes, by id."""
        self.leaves: dict[int, Any] = {}
        """The parameters and other leaves, by the id of their AccumulateGrad node."""
        self.edges: list[int] = []
        """For each visited node: its id, the number of nodes that its inputs come from, and the ids of these."""
        self.views: set[int] = set()
        """The ids of nodes that only cast or view their input."""
        self.abandoned: set[int] = set()
        """The ids of the roots whose walk left out nodes, as a backward pass had released what they save, or earlier
        looks have visited a part."""
        self.numbers: dict[int, int] = {}
        """The sequence number of each visited node by its id; leaves have none."""
        self.passed: set[int] = set()
        """The ids of the nodes at which a walk turned back, as earlier looks have visited all that they lead to."""
        self.embeddings: set[int] = set()
        """The ids of the nodes that look up an embedding."""
        self.is_readable = can_read_saved(torch)
        self._attributes = attributes
        self._is_at_rest = at_rest.graph
        self.known = known
        """The sequence numbers of the parts that earlier looks have visited: see `WalkedParts`."""
        self._python_node = torch._C._FunctionBase
        self._tensor = torch.Tensor
        self._left: list[Any] = []
        """The nodes that a walk had no time for, kept alive because their ids are in `edges`."""
        self._found = 0
        """How many saved tensors and packed objects were found."""
        self._packed: list[Packed] = []
        self._plans: dict[int, _Plan] = dict(_plans_of_cpp_nodes)

    def walk(self, root: Node, meter: Meter, *, is_thorough: bool = True) -> Iterator[Saved]:
        """Every tensor saved by the nodes that are reachable from `root` and that this `Graph` has not visited.

        A backward pass releases what its nodes have saved, but the nodes stay for as long as the program has the loss.
        Unless `is_thorough`, a walk ends once its first `RELEASED_AFTER` nodes have released everything.
        """
        released = 0
        seen, spend, plans, edges = self.nodes, meter.spend, self._plans, self.edges
        is_at_rest = self._is_at_rest
        stack = [] if root is None else [root]
        while stack:
            node = stack.pop()
            ident = id(node)
            if ident in seen:
                continue
            cls = type(node)
            plan = plans.get(id(cls)) or self._plan(cls)
            if not spend() or (plan.saved and not is_at_rest()):
                meter.leave_out()
                self._left += [node, *stack]
                return
            seen[ident] = node
            if plan.number is not None and self._was_visited(ident, plan.number(node)):
                self.abandoned.add(id(root))
                continue
            if plan.saved:
                found = self._found
                yield from self._saved(node, plan)
                released = released + 1 if self._found == found else -sys.maxsize
                if released == RELEASED_AFTER and not is_thorough:
                    self.abandoned.add(id(root))
                    return
            if plan.is_special:
                self._note(node, plan)
            inputs = [source for source, _ in plan.edges(node) if source is not None]
            edges += ident, len(inputs)
            edges += map(id, inputs)
            stack += inputs

    def _was_visited(self, ident: int, number: int) -> bool:
        """Whether earlier looks have visited this node and all that it leads to; notes its sequence number."""
        self.numbers[ident] = number
        if number not in self.known:
            return False
        self.passed.add(ident)
        return True

    def _saved(self, node: Node, plan: _Plan) -> Iterator[Saved]:
        for argument, read in plan.saved:
            try:
                value = read(node)
            except UNREADABLE:  # a list of tensors that backward has released
                continue
            for saved in value if type(value) is tuple else (value,):
                data = getattr(saved, "data", None)
                if data is None:
                    continue
                self._found += 1
                if issubclass(type(data), self._tensor):
                    yield Saved(data, node, plan.operation, argument)
                else:
                    self._packed.append(Packed(node, [data, saved.unpack_hook]))

    def _note(self, node: Node, plan: _Plan) -> None:
        """Note a leaf, what a custom function keeps, an embedding, or a node that casts or views its input."""
        if plan.operation == LEAF:
            self.leaves[id(node)] = node.variable
        elif plan.is_python:
            self._packed.append(Packed(node, list(self._attributes.read(node).values())))
        else:
            (self.embeddings if plan.operation == EMBEDDING else self.views).add(id(node))

    def take_packed(self) -> list[Packed]:
        """What the nodes visited since the last call keep in place of tensors."""
        packed, self._packed = self._packed, []
        return packed

    def copied_from(self, saved: Saved) -> Tensor:
        """The leaf that autocast has cast to another dtype to make the saved tensor; None if there was no cast."""
        position = INPUTS.get(saved.operation, {}).get(saved.argument)
        edges = saved.node.next_functions if position is not None else ()
        node = edges[position][0] if position is not None and position < len(edges) else None
        is_copy = False
        while node is not None and type_name(node) in VIEWS_AND_COPIES:
            is_copy = is_copy or type_name(node) == COPY
            node = node.next_functions[0][0]
        return node.variable if is_copy and node is not None and type_name(node) == LEAF else None

    def _plan(self, cls: type) -> _Plan:
        is_python = issubclass(cls, self._python_node)
        base: AnyObject = self._python_node if is_python else cls
        saved = [
            (name[len(RAW) :], getter.__get__)
            for name, getter in list(namespace_of(base).items())
            if name.startswith(RAW) and self.is_readable
        ]
        operation = class_name(cls)
        is_special = is_python or operation in SPECIAL
        edges = base.next_functions.__get__ if is_python else _edges
        number = None if operation == LEAF else getattr(base, "_sequence_nr", None)
        plan = self._plans[id(cls)] = _Plan(cls, operation, is_python, edges, saved, number, is_special)
        if not is_python:
            _plans_of_cpp_nodes[id(cls)] = plan
        return plan


class _Plan(NamedTuple):
    """How to read one type of node."""

    cls: type
    """Kept, so that no other type gets its id."""
    operation: str
    is_python: bool
    edges: Callable[[Any], Any]
    saved: list[tuple[str, Callable[[Any], Any]]]
    number: Callable[[Any], int] | None
    is_special: bool
    """Whether `Graph._note` has to be called for nodes of this type."""


def _edges(node: Node) -> AnyObject:
    return node.next_functions


_plans_of_cpp_nodes: dict[int, _Plan] = {}
"""By the id of the type. Kept from one look to the next: they are PyTorch's own and live as long as the process."""
