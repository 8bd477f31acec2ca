"""An object's attributes, read without running any of its code."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from functools import lru_cache
from itertools import repeat
from operator import is_
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, NamedTuple

from gputui.probe.objects import plain
from gputui.probe.objects.kinds import is_lasting
from gputui.probe.objects.torch_types import AnyObject, Module


def module_dict(module: Module) -> dict[Any, Any]:
    """A module's `__dict__`, past a property of that name in a subclass."""
    own: dict[Any, Any] = module_dict_getter()(module)
    return own


@lru_cache(maxsize=None)
def module_dict_getter() -> Callable[[Module], Any]:
    """The getter of a module's `__dict__`, for loops of C."""
    getter: Callable[[Module], Any] = plain.namespace_of(sys.modules["torch"].nn.Module)["__dict__"].__get__
    return getter


class AttributeReader:
    """Reads `__dict__` and filled slots. What it learns about the program's types is kept for one look only."""

    def __init__(self) -> None:
        self._plans: dict[int, _Plan] = {}
        """For the program's own types, by the id of the type: to hash the type may run code of its metaclass."""

    def read(self, owner: AnyObject) -> dict[str, Any]:
        """The attributes by name, in a new dictionary."""
        return {name: value for key, value in self.items(owner) if (name := plain.name_of(key)) is not None}

    def items(self, owner: AnyObject) -> list[tuple[Any, Any]]:
        """The attributes with their names, which need not be plain strings."""
        slots = self._plan(type(owner)).slots
        # Asking for `__dict__` creates one if the values still lie in the object, so it is asked only if there are any.
        own_dict = self.own_dict(owner) if gc.get_referents(owner) else None
        attributes = [] if own_dict is None else list(own_dict.items())
        attributes += [(name, value) for name, get in slots if (value := _slot(get, owner)) is not EMPTY]
        return attributes

    def inner_of(self, owner: AnyObject) -> str:
        """The attribute in which an object keeps what it shows as its own elements, as a `UserDict`; "" for most."""
        return self._plan(type(owner)).inner

    def own_dict(self, owner: AnyObject) -> dict[Any, Any] | None:
        """The object's `__dict__` itself, None if it has none."""
        get_dict = self._plan(type(owner)).get_dict
        own_dict = None if get_dict is None else _slot(get_dict, owner)
        return own_dict if type(own_dict) is dict else None

    def dicts_of(self, owners: list[Any]) -> list[dict[Any, Any]]:
        """The `__dict__` of each of these objects of one type; [] if they have none."""
        get_dict = self._plan(type(owners[0])).get_dict
        own = [] if get_dict is None else list(map(get_dict, owners))
        return own if all(map(is_, map(type, own), repeat(dict))) else []

    def slots_of(self, owners: list[Any]) -> tuple[list[str], list[list[Any]]]:
        """The names of the slots of these objects of one type, and the values in each; `EMPTY` for an empty slot."""
        slots = self._plan(type(owners[0])).slots
        return [name for name, _ in slots], [_column(get, owners) for _, get in slots]

    def _plan(self, cls: type) -> _Plan:
        plan = _lasting_plans.get(id(cls)) or self._plans.get(id(cls))
        if plan is None:
            plan = _plan(cls)
            (_lasting_plans if is_lasting(cls) else self._plans)[id(cls)] = plan
        return plan


class _Plan(NamedTuple):
    """How to read the objects of one type. The contents of the attribute `inner` are named as the object's own."""

    cls: type
    get_dict: Callable[[Any], Any] | None
    slots: list[tuple[str, Callable[[Any], Any]]]
    inner: str = ""


_INNER = {
    ("collections", "UserDict"): "data",
    ("collections", "UserList"): "data",
    ("weakref", "WeakKeyDictionary"): "data",
    ("weakref", "WeakValueDictionary"): "data",
    ("torch_geometric.data.data", "Data"): "_store",
    ("torch_geometric.data.storage", "BaseStorage"): "_mapping",
}
"""The attribute in which these classes and those derived from them keep what they show as their own elements."""


EMPTY = object()
_lasting_plans: dict[int, _Plan] = {}
"""By the id of the type, for types that stay as long as the process."""


def _slot(get: Callable[[AnyObject], AnyObject], owner: AnyObject) -> AnyObject:
    try:
        return get(owner)
    except (AttributeError, TypeError):  # an empty slot, or an object still being made
        return EMPTY


def _column(get: Callable[[AnyObject], AnyObject], owners: list[Any]) -> list[Any]:
    try:
        return list(map(get, owners))
    except (AttributeError, TypeError):
        return [_slot(get, owner) for owner in owners]


def _plan(cls: type) -> _Plan:
    get_dict: Callable[[Any], Any] | None = None
    slots: list[tuple[str, Callable[[Any], Any]]] = []
    inner = ""
    for base in plain.mro_of(cls):
        names = plain.namespace_of(base)
        inner = inner or _INNER.get((plain.module_name(base), plain.class_name(base)), "")
        descriptor = names.get("__dict__")
        is_of_c = plain.is_one_of(type(descriptor), (GetSetDescriptorType, MemberDescriptorType))
        if is_of_c and get_dict is None:  # a property would be the program's code
            get_dict = descriptor.__get__
        if "__slots__" in names:
            members = [member for member in names.values() if type(member) is MemberDescriptorType]
            slots += [(member.__name__, member.__get__) for member in members]
    return _Plan(cls, get_dict, slots, inner)
