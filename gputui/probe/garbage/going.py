"""Which storages go with some objects: those to which all references, Python's and C++'s, come from what goes.

An object without any other reference goes, and takes its own references with it. What C++ holds of a tensor is its
gradient, the tensor that it is a view of, and the graph that made it with all that this has saved; a node of a graph
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
    """A storage that goes, with the number of the group of objects that takes it along."""

    device: int
    address: int
    size_bytes: int
    group: int


class Countdown:
    """Belongs to one stop. `groups` has the number of each object's group, by id; all of these objects go.

    `others` are the tensors, and nodes of graphs, to which something else may lead; the list is the caller's only one.
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
        """What the objects that go lead to, and what stays so far, by id."""
        self._gone: dict[int, Any] = {}
        self._closed: set[int] = set()
        """The ids of tensors to which nothing in Python leads from outside."""
        self._touched: set[int] = set()
        """The ids of those to which more references go than at the last count."""
        self._python: Counter[int] = Counter()
        """How many references from Python to each object go, by id."""
        self._held: Counter[int] = Counter()
        """The same for references from C++ to tensors."""
        self._of_graphs: tuple[Counter[int], Counter[int]] = Counter(), Counter()
        """Both for what the nodes of graphs hold."""
        self._roots: list[Tensor] = []
        """Tensors with a graph that go."""
        self._found: dict[int, Going] = {}
        self._holders: Counter[int] = Counter()
        """How many of what holds each storage go; storages are known by where C++ has them."""

    @property
    def is_whole(self) -> bool:
        """Whether there was time for all, and no other thread was changing gradients or graphs."""
        return self._meter.is_complete and self._at_rest.gradients()

    def unread_graphs(self) -> dict[int, int]:
        """The groups with graphs of which PyTorch does not tell what they have saved, with their devices."""
        roots = [] if can_read_saved(self._torch) else self._roots
        placed = {self._groups[id(tensor)]: self._cpp.placed(tensor) for tensor in roots}
        return {group: at[1].device for group, at in placed.items() if at is not None}

    def storages(self, objects: list[Any]) -> list[Going]:
        """The storages on devices that go with these objects."""
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
        """Those to which nothing leads any more but what has gone."""
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
        """Count a reference to this that goes."""
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
        """Count what the nodes hold that go with the tensors that went; returns whether that is more than before."""
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
        """The nodes to which tensors and variables lead that stay."""
        others = [value for ident, value in self._others.items() if ident not in self._gone]
        nodes = [value for value in others if not self._cpp.is_tensor(value)]
        stay = [value for value in others if self._cpp.is_tensor(value)]
        stay += [held for held in map(self._gradients.gradient, stay) if held is not None]
        roots = list(compress(stay, self._gradients.have_graphs(stay)))
        return nodes + [node for node in map(self._gradients.node, roots) if node is not None]


def is_node(torch: Torch, cls: type) -> bool:
    """Whether objects of this class are nodes of a graph that are made in C++."""
    return "next_functions" in namespace_of(cls) and not issubclass(cls, torch._C._FunctionBase)


class _Cpp:
    """What PyTorch tells of the holders of tensors and storages in C++."""

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
        """Whether a tensor that C++ holds, too, holds its Python object: PyTorch since 2.10."""

    def is_tensor(self, value: AnyObject) -> bool:
        return issubclass(type(value), self._tensor)

    def is_storage(self, value: AnyObject) -> bool:
        return issubclass(type(value), self._storage_class)

    def is_python_node(self, value: AnyObject) -> bool:
        return issubclass(type(value), self._python_node)

    def other_uses(self, value: AnyObject) -> int:
        """How many references from C++ there are to the tensor or storage, beside that of its Python object."""
        if self.is_tensor(value):
            return self._use_count(value) - 1
        return self.uses_of_storage(self.identity(value)) - 1 if self.is_storage(value) else 0

    def identity(self, storage: AnyObject) -> int:
        return int(self._cdata(storage))

    def base(self, tensor: Tensor) -> Tensor | None:
        return self._base(tensor) if self._is_view(tensor) else None

    def parts(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of which a sparse one consists."""
        return self._wrappers.parts(tensor) if type(tensor) is self._tensor else []

    def placed(self, tensor: Tensor) -> tuple[Any, Going] | None:
        """The tensor's storage, if it is on a CUDA device."""
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
    """Tried with a tensor of our own that another one holds."""
    gradient, leaf = torch.empty(0), torch.empty(0, requires_grad=True)
    alone = sys.getrefcount(gradient)
    leaf.grad = gradient
    return sys.getrefcount(gradient) > alone


def held_in_two() -> int:
    """How many references `sys.getrefcount` finds of an object that only two containers hold."""
    alone = [object()]
    beside = list(alone)
    (held,) = map(sys.getrefcount, beside)
    return held
