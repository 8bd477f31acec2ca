"""Modules and optimizers: the names of their tensors, as `named_parameters()` would give them, without calling it."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from gputui.probe.torch_types import Module
from gputui.probe.variables import NamedValue

FORWARDING_WRAPPERS = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
"""Children that a wrapper (torch.compile, FSDP, checkpointing) stands for: a person leaves them out of the name."""


class NamedModule(NamedTuple):
    """A module with its full name ("model.layers.0")."""

    module: Module
    name: str


def named_modules(found: list[NamedValue], loose: list[NamedValue]) -> Iterator[NamedModule]:
    """Every module below those found by variable, then below those found without, each once.

    One known only as `self`, in its own method, goes by its class. A variable's name for what a mere wrapper (DDP,
    compile) holds comes before the wrapper's.
    """
    inner, wrapped = _inner_modules(found)
    by_name = [named for named in found if id(named.value) not in inner and named.name != "self"]
    by_name.sort(key=lambda named: id(named.value) not in wrapped)
    by_class = [NamedValue(named.value, type(named.value).__name__, "") for named in found if named.name == "self"]
    seen: set[int] = set()
    for named in (*by_name, *outermost(by_class), *outermost(loose)):
        yield from _tree(named.value, named.name, seen)


def outermost(found: list[NamedValue]) -> list[NamedValue]:
    inner, wrapped = _inner_modules(found)
    return [named for named in found if id(named.value) not in inner and id(named.value) not in wrapped]


def own(module: Module, kind: str) -> list[tuple[str, Any]]:
    """A module's `_parameters`, `_buffers` or `_modules`: [] for a module whose `__init__` has not run yet."""
    held = object.__getattribute__(module, "__dict__").get(kind)
    return list(dict.items(held)) if isinstance(held, dict) else []


def _tree(root: Module, name: str, seen: set[int]) -> Iterator[NamedModule]:
    stack = [(root, name)]
    while stack:
        module, name = stack.pop()
        if module is None or id(module) in seen:
            continue
        seen.add(id(module))
        yield NamedModule(module, name)
        children = own(module, "_modules")
        stack += [(child, name if key in FORWARDING_WRAPPERS else f"{name}.{key}") for key, child in reversed(children)]


def _inner_modules(found: list[NamedValue]) -> tuple[set[int], set[int]]:
    """The ids of modules below others; apart, those that are the only child of a mere wrapper."""
    inner: set[int] = set()
    wrapped: set[int] = set()
    expanded: set[int] = set()
    stack = [named.value for named in found]
    while stack:
        module = stack.pop()
        if module is None or id(module) in expanded:
            continue
        expanded.add(id(module))
        children = [child for _, child in own(module, "_modules")]
        is_mere_wrapper = len(children) == 1 and not own(module, "_parameters")
        (wrapped if is_mere_wrapper else inner).update(map(id, children))
        stack += children
    return inner, wrapped


class ScanFinds:
    """Modules and optimizers that only a scan could find, held weakly, so that later walks know them."""

    def __init__(self) -> None:
        self._found: list[tuple[weakref.ref[Any], str]] = []

    def remember(self, found: Iterable[NamedValue]) -> None:
        self._found = [(weakref.ref(named.value), named.name) for named in found]

    def still_there(self) -> list[NamedValue]:
        alive = [(reference(), name) for reference, name in self._found]
        return [NamedValue(value, name, "") for value, name in alive if value is not None]
