"""The remembered containers, in which a climb or a search has found much memory. Each later look reads them first.

They are kept as addresses, with those of the objects on the way to them from a variable. A container counts as still
there only if each of these objects still holds the next one.
"""

from __future__ import annotations

import gc
import sys
from collections import deque
from itertools import compress, count, repeat
from operator import is_
from types import CellType, FunctionType, MethodType
from typing import Any, NamedTuple

from gputui.probe.names.climb import Path, is_of_module
from gputui.probe.names.container_tensors import ContainerTensors
from gputui.probe.objects import plain
from gputui.probe.objects.attributes import AttributeReader, module_dict
from gputui.probe.objects.functions import closure_of
from gputui.probe.objects.handles import Handle, handle_of, objects_of
from gputui.probe.objects.kinds import SEQUENCES, base_of
from gputui.probe.objects.opaque import LRU_CACHE
from gputui.probe.objects.torch_types import AnyObject
from gputui.probe.search.container_lines import Container
from gputui.probe.search.variables import NamedValue, join
from gputui.protocol.owners import Where

AT_MOST = 16
"""How many containers are remembered: those found last."""
OWNED_BY_MODULES = ("_modules", "_parameters", "_buffers")
COLLECTIONS = (list, dict, deque, set, LRU_CACHE)
"""Types that grow; a tuple or an object is a record in one of these."""


class RememberedContainer(NamedTuple):
    """A container with its name, the object that has it as an attribute or element, if any, and its tensors."""

    named: NamedValue
    holder: AnyObject
    tensors: ContainerTensors


class _Remembered(NamedTuple):
    """A remembered container: its name, and the way to it from the value of a variable, both included."""

    name: str
    where: Where
    handles: tuple[Handle, ...]
    tensors: ContainerTensors


class Collection(NamedTuple):
    """A container that a search has come to. `handles`: that of its holder, if it has one, then its own."""

    name: str
    where: Where
    handles: tuple[Handle, ...]
    elements: int


def collections(found: list[Container]) -> list[Collection]:
    """The containers among these that can be remembered: in no other container, and led to by a variable."""
    return [
        Collection(named.name, named.where, tuple(map(handle_of, way)), elements)
        for named, elements, holder in found
        for way in ([value for value in (holder, named.value) if value is not None],)
        if not named.keeper and "[" not in named.name and issubclass(type(named.value), COLLECTIONS)
    ]


class Remembered:
    """Belongs to one process."""

    def __init__(self) -> None:
        self._keepers: dict[Handle, _Remembered] = {}
        self._first = 0

    def add(self, paths: list[Path], attributes: AttributeReader) -> bool:
        """Remember what holds the tensors at the ends of these paths; returns whether any of it is new."""
        before = set(self._keepers)
        shared = _shared(paths)
        if shared is None or not self._remember(paths[0].variable, shared, attributes, is_shared=True):
            for path in paths:
                self._remember(path.variable, path.handles[:-1], attributes, is_shared=False)
        self._forget_oldest()
        return not before.issuperset(self._keepers)

    def keep(self, collection: Collection) -> None:
        """Remember a container that a search has come to, with the object that has it as an attribute, if any."""
        name, where, handles, _ = collection
        if not any(handles[-1] in kept.handles for kept in self._keepers.values()):
            self._keepers[handles[-1]] = _Remembered(name, where, handles, ContainerTensors())
            self._forget_oldest()

    def forget(self, container: AnyObject) -> None:
        """Forget a container: the variable whose value it was is gone, or has another value by now."""
        self._keepers.pop(handle_of(container), None)

    def _forget_oldest(self) -> None:
        for handle in list(self._keepers)[:-AT_MOST]:
            del self._keepers[handle]

    def _remember(
        self, variable: NamedValue, handles: tuple[Handle, ...], attributes: AttributeReader, *, is_shared: bool
    ) -> bool:
        """Remember the last collection on a path, or its last object with a name; returns whether there was one.

        If several paths share these objects, the last object itself must be a collection. A path through a module's
        children, parameters or buffers is left to `ModuleTrees`, which has not come so far yet.
        """
        objects = objects_of(list(handles))
        if not objects or any(map(is_, objects, repeat(None))) or _is_in_module(objects):
            return False
        names = _names_down(variable, objects, attributes)
        named = [number for number, name in enumerate(names) if name]
        collections = [number for number in named if issubclass(type(objects[number]), COLLECTIONS)]
        if is_shared and collections[-1:] != [len(objects) - 1]:
            return False
        for number in [*(collections or named)][-1:]:
            before = self._keepers.pop(handles[number], None)
            tensors = before.tensors if before else ContainerTensors()
            self._keepers[handles[number]] = _Remembered(names[number], variable.where, handles[: number + 1], tensors)
        return bool(named)

    @property
    def are_read(self) -> bool:
        """Whether looks have read all remembered containers to the end."""
        return all(kept.tensors.is_read for kept in self._keepers.values())

    def keepers(self) -> list[RememberedContainer]:
        """The containers that are still where they were found; the others are forgotten."""
        rows = list(self._keepers.items())
        self._first = (self._first + 1) % max(1, len(rows))
        rows = rows[self._first :] + rows[: self._first]  # each is the first once, as time may not be enough for all
        objects = iter(objects_of([handle for _, kept in rows for handle in kept.handles]))
        keepers = []
        for handle, kept in rows:
            way = [next(objects) for _ in kept.handles]
            if any(map(is_, way, repeat(None))) or not all(map(_holds, way, way[1:])):
                del self._keepers[handle]
                continue
            holder = next((value for value in reversed(way[:-1]) if type(value) is not dict), None)
            keepers.append(RememberedContainer(NamedValue(way[-1], kept.name, kept.where), holder, kept.tensors))
        return keepers


def _shared(paths: list[Path]) -> tuple[Handle, ...] | None:
    """The beginning that several paths share; None if there is none."""
    shared: list[Handle] = []
    for handles in zip(*(path.handles for path in paths)):
        if len(set(handles)) > 1:
            break
        shared.append(handles[0])
    return tuple(shared) if len(paths) > 1 and shared else None


def _is_in_module(objects: list[Any]) -> bool:
    """Whether one of these objects is the dictionary of the children, parameters or buffers of a module among them."""
    cls = sys.modules["torch"].nn.Module
    owned = [module_dict(value) for value in objects if issubclass(type(value), cls)]
    parts = {id(dict.get(attributes, part)) for attributes in owned for part in OWNED_BY_MODULES}
    return not parts.isdisjoint(map(id, objects))


def _holds(value: AnyObject, held: AnyObject) -> bool:
    """Whether an object holds another: directly, in a dictionary such as its namespace, or in its closure."""
    inside = [*gc.get_referents(value), *(held for _, held in closure_of(value))]
    dicts = (referent for referent in inside if type(referent) is dict)
    return any(map(is_, inside, repeat(held))) or any(any(map(is_, own.values(), repeat(held))) for own in dicts)


def _names_down(variable: NamedValue, objects: list[Any], attributes: AttributeReader) -> list[str]:
    """The names of the objects on a way down from the value of a variable; "" for one that shows no name of its own."""
    name = variable.name
    names = [name]
    for number, held in enumerate(objects[1:], 1):
        above = objects[number - 2] if number > 1 else None
        step = _step(above, objects[number - 1], held, attributes)
        name = join(name, step or "")
        names.append("" if step is None else name)
    return names


def _step(above: AnyObject, holder: AnyObject, held: AnyObject, attributes: AttributeReader) -> str | None:
    """What the name gets on the way from one object to what it holds; None from an object to its namespace."""
    if is_namespace(held, holder, attributes):
        return None
    cls = type(holder)
    if issubclass(cls, dict):
        is_plain = type(above) is LRU_CACHE or not is_namespace(holder, above, attributes)
        text = plain.key_text if is_plain else None
        key = next(compress(dict.keys(holder), map(is_, dict.values(holder), repeat(held))), None)
        if is_of_module(holder):
            return plain.name_of(key) or ""
        return f".{plain.name_of(key) or ''}" if text is None else f"[{text(key)}]"
    if issubclass(cls, SEQUENCES):
        place = next(compress(count(), map(is_, base_of(holder).__iter__(holder), repeat(held))), 0)
        is_closure = type(above) is FunctionType and above.__closure__ is holder
        return above.__code__.co_freevars[place] if is_closure else f"[{place}]"
    if plain.is_one_of(cls, (FunctionType, MethodType, CellType)):
        return ""
    name = next((plain.name_of(key) for key, value in attributes.items(holder) if value is held), None)
    return f".{name}" if name else ""


def is_namespace(value: AnyObject, owner: AnyObject, attributes: AttributeReader) -> bool:
    """Whether a value is the dictionary of its owner's attributes or cached results, or the tuple of its closure."""
    cls = type(owner)
    if type(value) is tuple:
        return cls is FunctionType and owner.__closure__ is value
    if type(value) is not dict or owner is None:
        return False
    return issubclass(cls, (type, LRU_CACHE)) or attributes.own_dict(owner) is value
