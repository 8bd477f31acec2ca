"""The containers of tensors: how many elements each has, where it is, and how many graphs it keeps.

A length is exact even in a look that has time for a few of the elements only: by it the viewer sees growth.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from gputui.probe import keepers, plain
from gputui.probe.growing_lines import (
    ATTRIBUTE,
    EITHER,
    FUNCTIONS_AT_MOST,
    VARIABLE,
    functions_of,
    line_of_growth,
    mentioning,
    variable_of,
)
from gputui.probe.stacks import Namespace
from gputui.probe.torch_types import AnyObject
from gputui.probe.variables import NamedValue, label_of

SHORTEST = 3
"""Shorter containers are pairs and records, not collections."""
DESCRIBED_AT_MOST = 256
"""How many containers a look describes: those nearest to a variable."""
SENT_AT_MOST = 64
SIZES_AT_MOST = 1024


class Root(NamedTuple):
    """A tensor in a container: its label, the place and the name by which the container leads to it, and its graph."""

    label: str
    where: str
    name: str
    has_graph: bool


class Container(NamedTuple):
    """A container as the search came to it, with the object that has it as an attribute or element, if any."""

    named: NamedValue
    elements: int
    holder: AnyObject


def describe(
    containers: Iterable[Container], namespaces: list[Namespace], files: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Most fields of `gputui.model.tensors.Container` for each; `add_graphs` adds the others.

    `files` has names for some files, such as "cell 12".
    """
    frames = [(space.where, space.code) for space in namespaces if space.code is not None]
    described = []
    for container in containers:
        named, variable = container.named, variable_of(container.named.name)
        module = None if named.where else _module_of(named, namespaces)
        described.append(
            {
                "ident": id(named.value),
                "name": named.name,
                "where": named.where or _file_of(module),
                "held_by": _class_of(container.holder, named.name),
                "type": plain.type_name(named.value),
                "elements": container.elements,
                "limit": _limit(named.value),
                "variable": named.where,
                "growth": (
                    [
                        *_nearest_functions(container, module, variable),
                        *(code for where, code in frames if where == named.where),
                        *(code for _, code in frames),
                    ],
                    variable,
                    _loads(container),
                    files,
                ),
            }
        )
    return described


def _loads(container: Container) -> tuple[str, ...]:
    """How the program reads the container: as a variable or as an attribute."""
    name, holder = container.named.name, container.holder
    if name.endswith("]"):
        return EITHER
    is_of_object = holder is not None and not plain.is_one_of(type(holder), (FunctionType, MethodType))
    return ATTRIBUTE if is_of_object or "." in name else VARIABLE


def _nearest_functions(container: Container, module: dict[str, Any] | None, variable: str) -> list[CodeType]:
    """The functions that are likely to add to the container: of its holder's class, or of its module."""
    held_by = [] if container.holder is None else functions_of(container.holder, variable)
    in_module = list(islice(mentioning(module, variable), FUNCTIONS_AT_MOST)) if module else []
    return held_by + in_module


def roots(
    tensors: Iterable[NamedValue],
    exceptions: Iterable[NamedValue],
    have_graphs: Callable[[list[Any]], list[bool]],
) -> Iterator[Root]:
    """The tensors that are in containers, also as locals that an exception in a container keeps.

    There may be thousands: only their graphs are asked for now, and what is returned holds no tensor.
    """
    by_label = {keepers.label_of(exception): exception for exception in exceptions if "[" in exception.name}
    elements = []
    for tensor in tensors:
        exception = by_label.get(tensor.where.partition(", ")[0]) if tensor.keeper == keepers.EXCEPTION else None
        element = exception or tensor
        if "[" in element.name:
            elements.append((tensor, element))
    with_graphs = have_graphs([tensor.value for tensor, _ in elements])
    names = [(tensor.name, tensor.where) for tensor, _ in elements]
    places = [(element.where, element.name) for _, element in elements]
    return (Root(label_of(*own), *place, graph) for own, place, graph in zip(names, places, with_graphs))


def add_graphs(
    described: list[dict[str, Any]],
    roots: Iterable[Root],
    nodes: Mapping[str, int],
    sizes: dict[tuple[int, str], tuple[int, int]],
) -> list[dict[str, Any]]:
    """The containers that hold tensors, with how many of their elements were read and how many of these keep a graph.

    `nodes` are the numbers of graph nodes that were visited from a tensor, by its label; `sizes` has those of earlier
    looks, with the number of graphs, by the id and the name of the container. Works on names alone, in the
    probe's thread, after the look.
    """
    counts: dict[tuple[str, str], _Elements] = {}
    for container in described:
        counts.setdefault((container["variable"], container["name"]), _Elements())
    for label, where, name, has_graph in roots:
        visited = nodes.get(label, 0) if has_graph else 0
        start = name.find("[")
        while start >= 0:
            elements = counts.get((where, name[:start]))
            if elements is not None:
                elements.add(name[start : name.find("]", start)], visited, has_graph=has_graph)
            start = name.find("[", start + 1)
    with_tensors = []
    for container in described:
        elements = counts[container.pop("variable"), container["name"]]  # shared by containers with the same name
        growth = container.pop("growth")
        if elements.read:
            container["grown_at"] = line_of_growth(*growth)
            operations, walked = _size_of_graphs(container, elements, sizes)
            read, graphs = len(elements.read), len(elements.with_graph)
            counted = {"read": read, "graphs": graphs, "nodes": operations, "walked": walked}
            with_tensors.append({**container, **counted})
    with_tensors.sort(key=lambda container: -container["read"])
    return with_tensors[:SENT_AT_MOST]


def _size_of_graphs(
    container: dict[str, Any], elements: _Elements, sizes: dict[tuple[int, str], tuple[int, int]]
) -> tuple[int, int]:
    """The number of operations in a number of graphs: those that this look has counted, or else an earlier one."""
    if len(sizes) > SIZES_AT_MOST:
        sizes.clear()
    key = container["ident"], container["name"]
    if elements.walked:
        sizes[key] = elements.nodes, elements.walked
    return sizes.get(key, (0, 0))


class _Elements:
    """The elements of one container that lead to tensors, by their key."""

    def __init__(self) -> None:
        self.read: set[str] = set()
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
    """The most elements that a deque keeps; 0 without a limit."""
    return (deque.maxlen.__get__(value) or 0) if issubclass(type(value), deque) else 0


def _module_of(named: NamedValue, namespaces: list[Namespace]) -> dict[str, Any] | None:
    """The globals of the module whose variable leads to the value."""
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
    if holder is None or name.endswith("]") or module_name == "builtins":
        return ""
    module = sys.modules.get(module_name)
    is_module = issubclass(type(module), ModuleType)
    file = plain.text_in(plain.module_variables(module), "__file__") if is_module else ""
    return f"{plain.class_name(cls)} in {file.rpartition('/')[2]}" if file else plain.class_name(cls)
