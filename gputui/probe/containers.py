"""The containers of tensors: how many elements each has, where it is, and how many graphs it keeps.

A length is exact even in a look that has time for a few of the elements only: by it the viewer sees growth.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from gputui.probe.stacks import Namespace
from gputui.probe.torch_types import AnyObject
from gputui.probe.variables import NamedValue

SHORTEST = 3
"""Shorter containers are pairs and records, not collections."""
DESCRIBED_AT_MOST = 256
"""How many containers a look describes: those nearest to a variable."""
SENT_AT_MOST = 64

Root = tuple[str, str, bool]
"""A tensor in a container: the place of its variable, its name, and whether it has a graph."""


class Container(NamedTuple):
    """A container as the search came to it, with the object that has it as an attribute or element, if any."""

    named: NamedValue
    elements: int
    holder: AnyObject


def describe(containers: Iterable[Container], namespaces: list[Namespace]) -> list[dict[str, Any]]:
    """Most fields of `gputui.model.tensors.Container` for each; `add_graphs` adds the others."""
    return [
        {
            "ident": id(container.named.value),
            "name": container.named.name,
            "where": container.named.where or _file_of_global(container.named, namespaces),
            "held_by": _class_of(container.holder, container.named.name),
            "type": type(container.named.value).__name__,
            "elements": container.elements,
            "limit": _limit(container.named.value),
            "variable": container.named.where,
        }
        for container in containers
    ]


def add_graphs(
    described: list[dict[str, Any]], roots: Iterable[Root], nodes: Mapping[str, int]
) -> list[dict[str, Any]]:
    """The containers that hold tensors, with how many of their elements were read and how many of these keep a graph.

    `nodes` are the numbers of graph nodes that were visited from a tensor, by its label. Works on names alone, in the
    probe's thread, after the look.
    """
    counts: dict[tuple[str, str], _Elements] = {
        (container.pop("variable"), container["name"]): _Elements() for container in described
    }
    for where, name, has_graph in roots:
        visited = nodes.get(NamedValue(None, name, where).label, 0) if has_graph else 0
        start = name.find("[")
        while start >= 0:
            elements = counts.get((where, name[:start]))
            if elements is not None:
                elements.add(name[start : name.find("]", start)], visited, has_graph=has_graph)
            start = name.find("[", start + 1)
    with_tensors = [
        container
        | {"read": len(elements.read), "graphs": len(elements.with_graph), "nodes": elements.nodes}
        | {"walked": elements.walked}
        for container, elements in zip(described, counts.values(), strict=True)
        if elements.read
    ]
    with_tensors.sort(key=lambda container: -container["read"])
    return with_tensors[:SENT_AT_MOST]


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


def _file_of_global(named: NamedValue, namespaces: list[Namespace]) -> str:
    """The file of the module whose global variable leads to the value, without its folder."""
    variable = named.name.partition("[")[0].partition(".")[0]
    files = [
        (space.variables.get(named.name) is named.value, space.variables["__file__"])
        for space in namespaces
        if not space.is_function
        and (variable in space.variables or named.name in space.variables)
        and type(space.variables.get("__file__")) is str
    ]
    files.sort(key=lambda entry: not entry[0])
    return files[0][1].rpartition("/")[2] if files else ""


def _class_of(holder: AnyObject, name: str) -> str:
    """`MetricsCallback in callbacks.py` for the object that has the container as an attribute; "" for a variable."""
    cls = type(holder)
    module_name = type.__getattribute__(cls, "__module__")
    if holder is None or name.endswith("]") or module_name == "builtins":
        return ""
    module = sys.modules.get(module_name)
    is_module = issubclass(type(module), ModuleType)
    file = object.__getattribute__(module, "__dict__").get("__file__") if is_module else None
    return f"{cls.__name__} in {file.rpartition('/')[2]}" if type(file) is str else cls.__name__
