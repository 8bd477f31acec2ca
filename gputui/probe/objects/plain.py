"""Types, names and dictionaries of the program, read without running its code.

A metaclass can say what `cls.__name__`, `cls == other` and `hash(cls)` do, and so what happens where a class is looked
up in a set or a dictionary; a subclass of `str` says it for a name, and one of `dict` for a namespace. So everything
here goes through the functions of C that the base classes have.

One case remains: a name that is no plain string but has the hash of one that a look asks for in a namespace, such as
`"__name__"`. Python itself compares the two, and the program's own accesses run the same code.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from itertools import repeat
from operator import is_
from typing import Any

from gputui.probe.objects.torch_types import AnyObject

mro_of = type.__dict__["__mro__"].__get__
namespace_of = type.__dict__["__dict__"].__get__
flags_of = type.__dict__["__flags__"].__get__
HEAP_TYPE = 1 << 9
"""CPython's flag of types made in Python (and a few in C): only their objects have attributes of the program's."""
_name_of = type.__dict__["__name__"].__get__
_module_of = type.__dict__["__module__"].__get__
module_variables: Callable[[AnyObject], Any] = namespace_of(types.ModuleType)["__dict__"].__get__
"""The globals of a module; a subclass may have a property of that name."""
text: Callable[[Any], str] = str.__str__
"""A plain string of the same characters, also for an object of a subclass of `str`."""


class _Metaclasses:
    """The metaclasses that this look has met, and which of them say how their classes are hashed and compared.

    Metaclasses are known by their ids, as hashing one could run code of its own metaclass.
    """

    def __init__(self) -> None:
        self._idents = {id(type)}
        """The ids of the metaclasses that leave this to `type`."""
        self._own_way: set[int] = set()
        """The ids of the metaclasses that do not."""

    def look(self) -> None:
        """Forget all metaclasses: the program may have changed one, and ids of freed ones recur."""
        self._own_way.clear()
        self._idents = {id(type)}

    def are_plain(self, classes: Iterable[type]) -> bool:
        """Whether these classes can be hashed and compared without running code of the program."""
        metaclasses = list(map(type, classes))
        if self._idents.issuperset(map(id, metaclasses)):
            return True
        met = dict(zip(map(id, metaclasses), metaclasses))
        for ident in met.keys() - self._idents - self._own_way:
            (self._own_way if any(map(_decides, mro_of(met[ident]))) else self._idents).add(ident)
        return self._idents.issuperset(met)


_metaclasses = _Metaclasses()
look_at_metaclasses = _metaclasses.look
"""Call this at the beginning of a look: `are_plain` relies on it."""
are_plain = _metaclasses.are_plain


def _decides(base: type) -> bool:
    """Whether a base of a metaclass says how classes are hashed or compared."""
    namespace = namespace_of(base)
    return base is not type and base is not object and ("__hash__" in namespace or "__eq__" in namespace)


def has_plain_names(namespace: dict[Any, Any]) -> bool:
    """Whether all keys are plain strings."""
    return all(map(is_, map(type, list(dict.keys(namespace))), repeat(str)))


def variables_of(namespace: dict[Any, Any]) -> dict[str, Any]:
    """A copy of a namespace with plain strings as names; values whose name is no string are left out."""
    if type(namespace) is dict and has_plain_names(namespace):
        return namespace.copy()
    named = ((name_of(name), value) for name, value in list(dict.items(namespace)))
    return {name: value for name, value in named if name is not None}


def name_of(name: AnyObject) -> str | None:
    """A name as a plain string; None if it is no string."""
    if type(name) is str:
        return name
    return text(name) if issubclass(type(name), str) else None


def text_in(namespace: dict[Any, Any], name: str) -> str:
    """The text that a namespace has under a name, "" if it has none."""
    return name_of(dict.get(namespace, name)) or ""


def class_name(cls: type) -> str:
    """`cls.__name__`, past its metaclass."""
    return text(_name_of(cls))


def type_name(value: AnyObject) -> str:
    """The name of a value's type."""
    return text(_name_of(type(value)))


def module_name(cls: type) -> str:
    """`cls.__module__`, past its metaclass; "" if it is no string."""
    return name_of(_module_of(cls)) or ""


KEY_PARTS_AT_MOST = 8
"""A longer tuple is shown by the name of its type."""
KEY_BITS_AT_MOST = 256
"""So is a larger number: Python may refuse to write it."""
KEY_CHARACTERS_AT_MOST = 128
"""Of a longer text, such as the prompt of a cache, the beginning and the end are shown."""
_BEGINNING, _END = 32, 16


def key_text(key: AnyObject) -> str:
    """How a key is shown: `'loss'`, `3`, `(3, 'loss')`, or the name of its type."""
    cls = type(key)
    if cls is int and key.bit_length() <= KEY_BITS_AT_MOST:
        return repr(key)
    if cls is tuple and 0 < len(key) <= KEY_PARTS_AT_MOST:
        return f"({', '.join('tuple' if type(part) is tuple else key_text(part) for part in key)})"
    if not issubclass(cls, str):
        return class_name(cls)
    own = text(key)
    return repr(own if len(own) <= KEY_CHARACTERS_AT_MOST else f"{own[:_BEGINNING]}...{own[-_END:]}")


def is_one_of(cls: type, others: tuple[type, ...]) -> bool:
    """Whether a class is one of these; `in` would compare it by its metaclass."""
    return any(map(is_, repeat(cls), others))


def by_id(values: Iterable[Any]) -> dict[int, Any]:
    """Each of these values once, by its id: hashing one may run code of the program, or take long."""
    found = list(values)
    return dict(zip(map(id, found), found))
