"""The containers of tensors: how many elements each has, where it is, and how many autograd graphs it keeps.

The length is exact even in a look that has time for a few of the elements only: the viewer tells growth by it.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Set
from itertools import compress, repeat
from operator import and_, eq, itemgetter, not_
from types import CodeType, ModuleType
from typing import Any, NamedTuple

from gputui.probe.objects import opaque, plain
from gputui.probe.objects.stacks import Namespace, place
from gputui.probe.objects.torch_types import AnyObject
from gputui.probe.search.container_lines import (
    Container,
    assigned_at,
    functions_in,
    in_classes,
    is_body_of,
    is_in_library,
    is_of_library,
    loads_of,
    nearest_functions,
    variable_of_program,
)
from gputui.probe.search.growing_lines import line_of_growth
from gputui.probe.search.variables import NamedValue
from gputui.protocol.owners import HELD, InException, Owner, Where, owner_of, place_of

SHORTEST = 3
"""Shorter containers are pairs and records, not collections."""
DESCRIBED_AT_MOST = 256
"""How many containers a look describes: those nearest to a variable."""
SENT_AT_MOST = 64
SIZES_AT_MOST = 1024
LRU_CACHE = "lru_cache"
"""The `type` of what `functools.lru_cache` or `functools.cache` fills."""

_INDEX = re.compile(r"[.\[]")

_value, _name, _where = itemgetter(0), itemgetter(1), itemgetter(2)
"""Of a `NamedValue`."""


class Roots(NamedTuple):
    """The tensors in containers, in columns: the name and place of each, the name and place of the element by which a
    container leads to it (an exception whose locals have it, or the tensor itself), and whether it has a graph."""

    names: list[str]
    wheres: list[Where]
    element_names: list[str]
    element_wheres: list[Where]
    have_graphs: list[bool]


def describe(
    containers: Iterable[Container], namespaces: list[Namespace], files: Mapping[str, str], unread: Set[int]
) -> list[dict[str, Any]]:
    """Most fields of `gputui.model.attached.tensors.Container` for each; `add_graphs` adds the others.

    `files` has names for some files, such as "cell 12". `unread`: the ids of containers of tensors in which this look
    may have read nothing.
    """
    frames = [(space.where, space.code) for space in namespaces if space.code is not None]
    described = []
    known: dict[str, list[CodeType]] = {}
    for container in containers:
        named, variable = container.named, variable_of_program(container)
        module = None if named.where else _module_of(named, namespaces)
        described.append(
            {
                "ident": id(named.value),
                "name": named.name,
                "where": place_of(named.where) or _file_of(module),
                "held_by": "" if is_in_library(container) else _class_of(container.holder, named.name),
                "type": LRU_CACHE if _is_cache(named.value) else plain.type_name(named.value),
                "grown_at": _definition(named.value, files),
                "elements": container.elements,
                "limit": _limit(named.value),
                "is_unread": id(named.value) in unread,
                "variable": named.where,
                "growth": (
                    [
                        *nearest_functions(container, variable),
                        *(in_classes(namespaces, variable, known) if is_of_library(container) else ()),
                        *functions_in(module, variable),
                        *(code for where, code in frames if where == named.where),
                        *(code for _, code in frames),
                    ],
                    variable,
                    loads_of(container),
                    files,
                ),
                "assigned": (
                    [code for where, code in frames if where == named.where or is_body_of(code, module)],
                    _INDEX.split(named.name, 1)[0],
                    files,
                ),
            }
        )
    return described


def roots(
    tensors: list[NamedValue],
    models: list[NamedValue],
    exceptions: Iterable[NamedValue],
    have_graphs: Callable[[list[Any]], list[bool]],
) -> Roots:
    """The tensors in containers, and in the local variables that an exception in a container keeps.

    `models` are modules and optimizers: each in a container counts as one tensor. As there may be thousands of tensors,
    the stop asks only whether they have graphs. What is returned holds no tensor.
    """
    in_containers = {exception.name: exception for exception in exceptions if "[" in exception.name}
    elements = tensors
    if in_containers:
        elements = [in_containers.get(_holder_of(tensor.where), tensor) for tensor in tensors]
    are_inside = list(map(str.__contains__, map(_name, elements), repeat("[")))
    inside = list(compress(tensors, are_inside))
    places = inside if elements is tensors else list(compress(elements, are_inside))
    others = [model for model in models if "[" in model.name and not model.keeper]
    found, leading = inside + others, places + others
    return Roots(
        names=list(map(_name, found)),
        wheres=list(map(_where, found)),
        element_names=list(map(_name, leading)),
        element_wheres=list(map(_where, leading)),
        have_graphs=have_graphs(list(map(_value, inside))) + [False] * len(others),
    )


def _holder_of(where: Where) -> str:
    """The variable with the exception that keeps a local variable at this place; "" for any other place."""
    return where.holder if type(where) is InException and where.exception == HELD else ""


def add_graphs(
    described: list[dict[str, Any]],
    roots: Roots,
    nodes: Mapping[Owner, int],
    sizes: dict[tuple[int, str], tuple[int, int]],
) -> list[dict[str, Any]]:
    """The containers that hold tensors, with how many of their elements were read and how many of these keep a graph.

    `nodes`: how many graph nodes were visited from a tensor, by its owner. `sizes` keeps (operations, graphs) from look
    to look, by the id and the name of the container. Runs in the probe's thread, after the look, on names alone.
    """
    counts = _count_elements(described, roots, nodes)
    with_tensors = []
    for container in described:
        elements = counts[container.pop("variable"), container["name"]]  # shared by containers with the same name
        growth, is_unread = container.pop("growth"), container.pop("is_unread")
        assigned = container.pop("assigned", ([], "", {}))
        read, graphs = len(elements.read) + elements.plain, len(elements.with_graph)
        if read or is_unread:
            container["grown_at"] = container.get("grown_at") or line_of_growth(*growth) or assigned_at(*assigned)
            operations, walked = _size_of_graphs(container, elements, sizes)
            counted = {"read": read, "graphs": graphs, "nodes": operations, "walked": walked}
            with_tensors.append({**container, **counted})
    with_tensors.sort(key=lambda container: -container["elements"])  # a look may read little of a long one
    return with_tensors[:SENT_AT_MOST]


def _count_elements(
    described: list[dict[str, Any]], roots: Roots, nodes: Mapping[Owner, int]
) -> dict[tuple[Where, str], _Elements]:
    """The elements of each container that lead to tensors, by the place of its variable and its name."""
    counts: dict[tuple[Where, str], _Elements] = {}
    for container in described:
        counts.setdefault((container["variable"], container["name"]), _Elements())
    are_plain = _are_plain(roots)
    holders = (name[: name.find("[")] for name in compress(roots.element_names, are_plain))
    for (where, name), number in Counter(zip(compress(roots.element_wheres, are_plain), holders)).items():
        if (where, name) in counts:
            counts[where, name].plain += number
    others = compress(zip(*roots), map(not_, are_plain))
    for own_name, own_where, name, where, has_graph in others:
        visited = nodes.get(owner_of(own_name, own_where), 0) if has_graph else 0
        start = name.find("[")
        while start >= 0:
            elements = counts.get((where, name[:start]))
            if elements is not None:
                elements.add(name[start : name.find("]", start)], visited, has_graph=has_graph)
            start = name.find("[", start + 1)
    return counts


def _size_of_graphs(
    container: dict[str, Any], elements: _Elements, sizes: dict[tuple[int, str], tuple[int, int]]
) -> tuple[int, int]:
    """The operations counted in some of its graphs, and the number of these: of this look, or of an earlier one."""
    if len(sizes) > SIZES_AT_MOST:
        sizes.clear()
    key = container["ident"], container["name"]
    if elements.walked:
        sizes[key] = elements.nodes, elements.walked
    return sizes.get(key, (0, 0))


def _are_plain(roots: Roots) -> list[bool]:
    """Which tensors have no graph and are themselves elements of a container that is in no other."""
    names = roots.element_names
    brackets = map(str.find, names, repeat("[")), map(str.rfind, names, repeat("["))
    are_elements = map(and_, map(eq, *brackets), map(str.endswith, names, repeat("]")))
    return list(map(and_, are_elements, map(not_, roots.have_graphs)))


class _Elements:
    """The elements of one container that lead to tensors. In `walked` of their graphs, `nodes` nodes were visited."""

    def __init__(self) -> None:
        self.plain = 0
        """How many are tensors themselves, without a graph."""
        self.read: set[str] = set()
        """The keys of the others, as `add` is given them."""
        self.with_graph: set[str] = set()
        self.nodes = self.walked = 0

    def add(self, key: str, visited: int, *, has_graph: bool) -> None:
        self.read.add(key)
        if has_graph:
            self.with_graph.add(key)
        if visited:
            self.nodes += visited
            self.walked += 1


def _limit(value: AnyObject) -> int:
    """The most elements that a deque or a cache keeps; 0 without a limit."""
    if _is_cache(value):
        return opaque.limit_of(value)
    return (deque.maxlen.__get__(value) or 0) if issubclass(type(value), deque) else 0


def _is_cache(value: AnyObject) -> bool:
    return type(value) is opaque.LRU_CACHE


def _definition(value: AnyObject, files: Mapping[str, str]) -> str:
    """Where the function is defined whose results a cache keeps; "" for other containers."""
    code = opaque.code_of(value) if _is_cache(value) else None
    return place(code, code.co_firstlineno, files) if code else ""


def _module_of(named: NamedValue, namespaces: list[Namespace]) -> dict[str, Any] | None:
    """The globals of the module whose variable leads to the value; None without one."""
    variable = named.name.partition("[")[0].partition(".")[0]
    modules = [
        space.variables
        for space in namespaces
        if not space.is_function and (variable in space.variables or named.name in space.variables)
    ]
    direct = (variables for variables in modules if variables.get(named.name) is named.value)
    return next(direct, modules[0] if modules else None)


def _file_of(module: dict[str, Any] | None) -> str:
    """The file of a module without its folder, "" if there is none."""
    return plain.text_in(module, "__file__").rpartition("/")[2] if module else ""


def _class_of(holder: AnyObject, name: str) -> str:
    """`MetricsCallback in callbacks.py` for the object that has the container as an attribute; "" for a variable."""
    cls = type(holder)
    module_name = plain.module_name(cls)
    if holder is None or name.endswith("]") or module_name in ("builtins", "_thread"):
        return ""
    module = sys.modules.get(module_name)
    is_module = issubclass(type(module), ModuleType)
    file = plain.text_in(plain.module_variables(module), "__file__") if is_module else ""
    if file and not file.endswith(".py"):  # made in C, as a ContextVar: it is the variable's own
        return ""
    return f"{plain.class_name(cls)} in {file.rpartition('/')[2]}" if file else plain.class_name(cls)
