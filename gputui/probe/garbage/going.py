"""Finds the storages that are freed ("go") with some objects, by counting references in Python and in C++.

An object goes if nothing refers to it but what goes, and then its own references go, too. In C++, a tensor refers to
its gradient, to the tensor that it is a view of, and to its autograd graph with all saved tensors. A node of a graph
stays if a tensor that stays leads to it.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter, deque
from collections.abc import Callable
from itertools import compress
from types import ModuleType
from typing import Any, NamedTuple

from gputui.probe.objects.attributes import AttributeReader
from gputui.probe.objects.plain import namespace_of
from gputui.probe.objects.torch_types import AnyObject, Tensor, Torch, tensor_base
from gputui.probe.pace.meter import Meter
from gputui.probe.tensors.autograd import Graph, can_read_saved
from gputui.probe.tensors.gradients import AtRest, GradientReader
from gputui.probe.tensors.wrapped_tensors import UNREADABLE, WrapperReader

_PASSED_OVER = (type, ModuleType)


class Going(NamedTuple):
    """A storage that goes; `group` is the number of the group of objects with which it goes."""

    device: int
    address: int
    size_bytes: int
    group: int


class Countdown:
    """Belongs to one stop. `groups` has the number of each object's group, by id: all these go but what C++ keeps.

    `others` are all other tensors, nodes of graphs and objects that are held, too: they may stay. The caller holds them
    by this list alone.
    """

    def __init__(self, torch: Torch, groups: dict[int, int], others: list[Any], meter: Meter) -> None:
        self._torch = torch
        self._meter = meter
        self._groups = groups
        self._others = {id(value): value for value in others}
        self._at_rest = AtRest(torch)
        self._gradients = GradientReader(torch, self._at_rest)
        self._cpp = _Cpp(torch)
        self._met: dict[int, Any] = {}
        """By id, the objects to which some reference goes, and of which it is not known that they go."""
        self._gone: dict[int, Any] = {}
        self._closed: set[int] = set()
        """The ids of the tensors in `groups`: no reference in Python comes from elsewhere."""
        self._touched: set[int] = set()
        """The ids of the objects in `_met` to which more references go than at the last count."""
        self._python: Counter[int] = Counter()
        """How many references from Python objects go, by the id of the object to which they refer."""
        self._held: Counter[int] = Counter()
        """How many references from C++ go, by the id of the tensor to which they refer."""
        self._of_graphs: tuple[Counter[int], Counter[int]] = Counter(), Counter()
        """The same two counts for the references from nodes of graphs."""
        self._roots: list[Tensor] = []
        """The tensors that go and have a graph."""
        self._found: dict[int, Going] = {}
        self._holders: Counter[int] = Counter()
        """How many references to each storage go, by the address of the storage in C++ (`_Cpp.identity`)."""

    @property
    def is_whole(self) -> bool:
        """Whether there was time for all, and no other thread was changing gradients or graphs."""
        return self._meter.is_complete and self._at_rest.gradients()

    def unread_graphs(self) -> dict[int, int]:
        """The device of each group with a graph of which PyTorch (before 2.10) does not tell what it has saved."""
        roots = [] if can_read_saved(self._torch) else self._roots
        placed = {self._groups[id(tensor)]: self._cpp.placed(tensor) for tensor in roots}
        return {group: at[1].device for group, at in placed.items() if at is not None}

    def storages(self, objects: list[Any]) -> list[Going]:
        """The storages on CUDA devices that go with these objects."""
        for value in objects:
            if self._cpp.is_tensor(value):
                self._closed.add(id(value))
                self._meet(value, self._groups[id(value)], Counter())
            else:
                self._gone[id(value)] = value
        for value in list(self._gone.values()):
            self._let_go(value)
        while True:
            going = self._next()
            if not going and not (self._roots and self._walks_graphs()):
                break
            for value in going:
                self._gone[id(value)] = self._met.pop(id(value))
                self._let_go(value)
        uses = self._cpp.uses_of_storage
        return [found for identity, found in self._found.items() if self._holders[identity] >= uses(identity)]

    def _next(self) -> list[Any]:
        """The touched objects to which nothing refers any more but what goes."""
        values = [self._met[ident] for ident in self._touched if ident in self._met]
        self._touched.clear()
        held_here, counts = held_in_two(), list(map(sys.getrefcount, values))
        are_listed = (2 * (id(value) in self._others) for value in values)
        return [
            value
            for value, count, listed in zip(values, counts, are_listed)
            if self._goes(value, count - held_here - listed)
        ]

    def _goes(self, value: AnyObject, references: int) -> bool:
        ident, (held, python) = id(value), self._of_graphs
        uses = self._cpp.other_uses(value)
        own = 1 if uses and self._cpp.keeps_python else 0
        if ident not in self._closed and references - own > self._python[ident] + python[ident]:
            return False
        return not self._cpp.is_tensor(value) or uses <= self._held[ident] + held[ident]

    def _let_go(self, value: AnyObject) -> None:
        self._meter.spend()
        group = self._groups[id(value)]
        for held in gc.get_referents(value):
            self._meet(held, group, self._python)
        if self._cpp.is_tensor(value):
            self._let_go_of_memory(value, group)
        elif self._cpp.is_storage(value):
            self._holders[self._cpp.identity(value)] += 1

    def _meet(self, value: AnyObject, group: int, counted: Counter[int]) -> None:
        """Count a reference to `value` that goes."""
        ident = id(value)
        if ident in self._gone or issubclass(type(value), _PASSED_OVER):
            return
        if not gc.is_tracked(value) and not self._cpp.is_storage(value):
            return
        self._met[ident] = value
        self._groups.setdefault(ident, group)
        self._touched.add(ident)
        counted[ident] += 1

    def _let_go_of_memory(self, tensor: Tensor, group: int) -> None:
        placed = self._cpp.placed(tensor)
        if placed is not None:
            storage, going = placed
            identity = self._cpp.identity(storage)
            self._found.setdefault(identity, going._replace(group=group))
            self._holders[identity] += 1
            self._meet(storage, group, Counter())
        for part in self._cpp.parts(tensor) if placed is None else ():
            self._meet(part, group, self._held)
        gradient, base = self._gradients.gradient(tensor), self._cpp.base(tensor)
        for held in (gradient, base):
            if held is not None:
                self._meet(held, group, self._held)
        if self._gradients.has_graph(tensor):
            self._roots.append(tensor)

    def _walks_graphs(self) -> bool:
        """Count again what the nodes that go refer to; returns whether that differs from the last count."""
        before = self._of_graphs
        self._of_graphs = Counter(), Counter()
        held, python = self._of_graphs
        graph = Graph(self._torch, AttributeReader(), self._at_rest)
        for node in self._staying_nodes():
            deque(graph.walk(node, self._meter), maxlen=0)
        graph.take_packed()
        for tensor in self._roots:
            group, known = self._groups[id(tensor)], set(graph.nodes)
            for saved in graph.walk(self._gradients.node(tensor), self._meter):
                self._meet(saved.tensor, group, held)
            for ident in graph.nodes.keys() - known:
                self._meet_node(graph, ident, group)
            for packed in graph.take_packed():
                for value in [] if self._cpp.is_python_node(packed.node) else packed.values:
                    self._meet(value, group, python)
        return self._of_graphs != before

    def _meet_node(self, graph: Graph, ident: int, group: int) -> None:
        held, python = self._of_graphs
        if ident in graph.leaves:
            self._meet(graph.leaves[ident], group, held)
        if self._cpp.is_python_node(graph.nodes[ident]):
            self._meet(graph.nodes[ident], group, python)

    def _staying_nodes(self) -> list[Any]:
        """The nodes among `others`, and the nodes to which tensors that stay lead."""
        others = [value for ident, value in self._others.items() if ident not in self._gone]
        objects = [value for value in others if not self._cpp.is_tensor(value)]
        nodes = [value for value in objects if self._cpp.is_python_node(value) or is_node(self._torch, type(value))]
        stay = [value for value in others if self._cpp.is_tensor(value)]
        stay += [held for held in map(self._gradients.gradient, stay) if held is not None]
        roots = list(compress(stay, self._gradients.have_graphs(stay)))
        return nodes + [node for node in map(self._gradients.node, roots) if node is not None]


def is_node(torch: Torch, cls: type) -> bool:
    """Whether objects of this class are nodes of a graph that C++ made, not those of custom functions."""
    return "next_functions" in namespace_of(cls) and not issubclass(cls, torch._C._FunctionBase)


class _Cpp:
    """Reads what C++ knows of tensors and storages: counts of references, views, and where storages are."""

    def __init__(self, torch: Torch) -> None:
        base = tensor_base(torch)
        self._tensor = torch.Tensor
        self._storage_class = torch._C.StorageBase
        self._use_count: Callable[[Any], int] = base._use_count
        self._storage = base.untyped_storage
        self._is_cuda = base.is_cuda.__get__
        self._data_address = torch._C._data_address
        self._is_view, self._base = base._is_view, base._base.__get__
        self._cdata = torch._C.StorageBase._cdata.__get__
        self._device_of = torch._C.StorageBase.device.__get__
        self.uses_of_storage: Callable[[int], int] = torch._C._storage_Use_Count
        self._python_node = torch._C._FunctionBase
        self._wrappers = WrapperReader(torch, AttributeReader())
        self.keeps_python = _keeps_python_objects(torch)
        """Whether a tensor that other C++ code holds refers to its own Python object: PyTorch 2.10 and newer."""

    def is_tensor(self, value: AnyObject) -> bool:
        return issubclass(type(value), self._tensor)

    def is_storage(self, value: AnyObject) -> bool:
        return issubclass(type(value), self._storage_class)

    def is_python_node(self, value: AnyObject) -> bool:
        return issubclass(type(value), self._python_node)

    def other_uses(self, value: AnyObject) -> int:
        """How many references C++ counts to the tensor or storage, without the one of its Python object."""
        if self.is_tensor(value):
            return self._use_count(value) - 1
        return self.uses_of_storage(self.identity(value)) - 1 if self.is_storage(value) else 0

    def identity(self, storage: AnyObject) -> int:
        return int(self._cdata(storage))

    def base(self, tensor: Tensor) -> Tensor | None:
        return self._base(tensor) if self._is_view(tensor) else None

    def parts(self, tensor: Tensor) -> list[Tensor]:
        """The tensors inside a sparse or functorch tensor; [] for a subclass, which holds its own in attributes."""
        return self._wrappers.parts(tensor) if type(tensor) is self._tensor else []

    def placed(self, tensor: Tensor) -> tuple[Any, Going] | None:
        """The tensor's storage, and that as a `Going` of group 0; None if it is not on a CUDA device."""
        try:
            if not self._is_cuda(tensor) or not self._data_address(tensor):
                return None
            storage = self._storage(tensor)
            size_bytes = int(self._storage_class.nbytes(storage))
            device = self._device_of(storage)
            return storage, Going(device.index, int(self._data_address(tensor)), size_bytes, 0)
        except UNREADABLE:
            return None


def _keeps_python_objects(torch: Torch) -> bool:
    """See `_Cpp.keeps_python`; tried with a tensor of our own that is the gradient of another."""
    gradient, leaf = torch.empty(0), torch.empty(0, requires_grad=True)
    alone = sys.getrefcount(gradient)
    leaf.grad = gradient
    return sys.getrefcount(gradient) > alone


def held_in_two() -> int:
    """What `sys.getrefcount`, called by `map`, returns for an object that only two containers hold."""
    alone = [object()]
    beside = list(alone)
    (held,) = map(sys.getrefcount, beside)
    return held
