"""An object's attributes, read without running any of its code."""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

from gputui.probe.torch_types import AnyObject

_mro_of = type.__dict__["__mro__"].__get__
_namespace_of = type.__dict__["__dict__"].__get__


class AttributeReader:
    """Reads `__dict__` and filled slots. What it learns about a type it keeps for one inventory, not longer."""

    def __init__(self) -> None:
        self._plans: dict[type, tuple[Any, list[tuple[str, Any]]]] = {}

    def read(self, thing: AnyObject) -> dict[str, Any]:
        """The attributes by name, in a dictionary of the caller's own."""
        slots = self._plan(type(thing))[1]
        # Asking for __dict__ makes one where the values still lie in the object: only of objects that hold something.
        held = self.own_dict(thing) if gc.get_referents(thing) else None
        found = {} if held is None else dict(held)
        found.update((name, value) for name, get in slots if (value := _slot(get, thing)) is not EMPTY)
        return found

    def own_dict(self, thing: AnyObject) -> dict[str, Any] | None:
        """The object's `__dict__` itself, None where it has none."""
        get_dict = self._plan(type(thing))[0]
        held = None if get_dict is None else _slot(get_dict, thing)
        return held if type(held) is dict else None

    def _plan(self, kind: type) -> tuple[Any, list[tuple[str, Any]]]:
        plan = self._plans.get(kind)
        if plan is None:
            plan = self._plans[kind] = _plan(kind)
        return plan


EMPTY = object()


def _slot(get: Callable[[AnyObject], AnyObject], thing: AnyObject) -> AnyObject:
    try:
        return get(thing)
    except (AttributeError, TypeError):  # a slot not filled yet, an object half made
        return EMPTY


def _plan(kind: type) -> tuple[Any, list[tuple[str, Any]]]:
    get_dict, slots = None, []
    for base in _mro_of(kind):
        names = _namespace_of(base)
        own = names.get("__dict__")
        if (
            type(own) is GetSetDescriptorType and get_dict is None
        ):  # a property of that name would be the program's code
            get_dict = own.__get__
        if "__slots__" in names:
            slots += [(name, member.__get__) for name, member in names.items() if type(member) is MemberDescriptorType]
    return get_dict, slots
