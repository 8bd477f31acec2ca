"""Modules and optimizers: the names of their tensors, as `named_parameters()` would give them, without calling it."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from gputui.probe.torch_types import Module
from gputui.probe.variables import NamedValue

FORWARDING_WRAPPERS = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
"""The child that a wrapper (torch.compile, FSDP, checkpointing) forwards to: left out of names, as a person would."""


class NamedModule(NamedTuple):
    """A module with its full name ("model.layers.0")."""

    module: Module
    name: str


def named_modules(in_variables: list[NamedValue], others: list[NamedValue]) -> Iterator[NamedModule]:
    """Every module below those held by variables, then every module below the others, each once.

    A module known only as `self`, in its own method, is named after its class. If both a wrapper (DDP, compile) and the
    module it wraps are in variables, the wrapped module's own variable names it.
    """
    inner, wrapped = _inner_modules(in_variables)
    by_name = [named for named in in_variables if id(named.value) not in inner and named.name != "self"]
    by_name.sort(key=lambda named: id(named.value) not in wrapped)
    by_class = [
        NamedValue(named.value, type(named.value).__name__, "") for named in in_variables if named.name == "self"
    ]
    seen: set[int] = set()
    for named in (*by_name, *outermost(by_class), *outermost(others)):
        yield from _tree(named.value, named.name, seen)


def outermost(modules: list[NamedValue]) -> list[NamedValue]:
    """Those that are not below another of these modules."""
    inner, wrapped = _inner_modules(modules)
    return [named for named in modules if id(named.value) not in inner and id(named.value) not in wrapped]


def registered(module: Module, attribute: str) -> list[tuple[str, Any]]:
    """The entries of a module's `_parameters`, `_buffers` or `_modules`; [] before its `__init__` has run."""
    entries = object.__getattribute__(module, "__dict__").get(attribute)
    return list(dict.items(entries)) if isinstance(entries, dict) else []


def _tree(root: Module, name: str, seen: set[int]) -> Iterator[NamedModule]:
    stack = [(root, name)]
    while stack:
        module, name = stack.pop()
        if module is None or id(module) in seen:
            continue
        seen.add(id(module))
        yield NamedModule(module, name)
        children = registered(module, "_modules")
        stack += [(child, name if key in FORWARDING_WRAPPERS else f"{name}.{key}") for key, child in reversed(children)]


def _inner_modules(modules: list[NamedValue]) -> tuple[set[int], set[int]]:
    """The ids of modules below others, and separately of those that are the only child of a mere wrapper."""
    inner: set[int] = set()
    wrapped: set[int] = set()
    expanded: set[int] = set()
    stack = [named.value for named in modules]
    while stack:
        module = stack.pop()
        if module is None or id(module) in expanded:
            continue
        expanded.add(id(module))
        children = [child for _, child in registered(module, "_modules")]
        is_mere_wrapper = len(children) == 1 and not registered(module, "_parameters")
        (wrapped if is_mere_wrapper else inner).update(map(id, children))
        stack += children
    return inner, wrapped


class ScanFinds:
    """Modules and optimizers that only a scan could find, held by weak references, so that later walks know them."""

    def __init__(self) -> None:
        self._finds: list[tuple[weakref.ref[Any], str]] = []

    def remember(self, finds: Iterable[NamedValue]) -> None:
        self._finds = [(weakref.ref(named.value), named.name) for named in finds]

    def alive(self) -> list[NamedValue]:
        values = [(reference(), name) for reference, name in self._finds]
        return [NamedValue(value, name, "") for value, name in values if value is not None]
