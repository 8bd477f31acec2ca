"""An object's attributes, read without running any of its code."""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, NamedTuple

from gputui.probe.torch_types import AnyObject

_mro_of = type.__dict__["__mro__"].__get__
_namespace_of = type.__dict__["__dict__"].__get__


class AttributeReader:
    """Reads `__dict__` and filled slots. What it learns about types is kept for one inventory only."""

    def __init__(self) -> None:
        self._plans: dict[type, _Plan] = {}

    def read(self, owner: AnyObject) -> dict[str, Any]:
        """The attributes by name, in a new dictionary."""
        slots = self._plan(type(owner)).slots
        # Asking for `__dict__` creates one if the values still lie in the object, so it is asked only if there are any.
        own_dict = self.own_dict(owner) if gc.get_referents(owner) else None
        attributes = {} if own_dict is None else dict(own_dict)
        attributes.update((name, value) for name, get in slots if (value := _slot(get, owner)) is not EMPTY)
        return attributes

    def own_dict(self, owner: AnyObject) -> dict[str, Any] | None:
        """The object's `__dict__` itself, None if it has none."""
        get_dict = self._plan(type(owner)).get_dict
        own_dict = None if get_dict is None else _slot(get_dict, owner)
        return own_dict if type(own_dict) is dict else None

    def _plan(self, cls: type) -> _Plan:
        plan = self._plans.get(cls)
        if plan is None:
            plan = self._plans[cls] = _plan(cls)
        return plan


class _Plan(NamedTuple):
    """How to read the objects of one type."""

    get_dict: Callable[[Any], Any] | None
    slots: list[tuple[str, Callable[[Any], Any]]]


EMPTY = object()


def _slot(get: Callable[[AnyObject], AnyObject], owner: AnyObject) -> AnyObject:
    try:
        return get(owner)
    except (AttributeError, TypeError):  # an empty slot, or an object still being made
        return EMPTY


def _plan(cls: type) -> _Plan:
    get_dict: Callable[[Any], Any] | None = None
    slots: list[tuple[str, Callable[[Any], Any]]] = []
    for base in _mro_of(cls):
        names = _namespace_of(base)
        descriptor = names.get("__dict__")
        if type(descriptor) is GetSetDescriptorType and get_dict is None:  # a property would be the program's code
            get_dict = descriptor.__get__
        if "__slots__" in names:
            slots += [(name, member.__get__) for name, member in names.items() if type(member) is MemberDescriptorType]
    return _Plan(get_dict, slots)
