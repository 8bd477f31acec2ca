"""Finds an engine's objects: from the variables of running functions, by the modules and names of their classes."""

from __future__ import annotations

import sys
import weakref
from collections import deque
from typing import Any, Dict

from gputui.probe.engines.facts import EngineFacts
from gputui.probe.objects import plain, stacks
from gputui.probe.objects.attributes import AttributeReader
from gputui.probe.objects.torch_types import AnyObject

Found = Dict[str, "weakref.ref[Any]"]
"""Weak references to the objects, by their names in the table."""
DEPTH = 5
"""So many attributes lead from a variable to an engine at most: a server's state, the client, the engine."""
OBJECTS_AT_MOST = 3000
ELEMENTS_AT_MOST = 64
"""So many elements of a list or dictionary are searched."""
COPIED_AT_MOST = 4096
"""A larger dictionary is passed over: its values would be copied first."""


def find(engine: EngineFacts, attributes: AttributeReader) -> Found:
    """The objects that variables of running functions, and globals of the main program, lead to by the fewest steps.

    The engine's own objects are searched before all others.
    """
    found: Found = {}
    others: deque[tuple[AnyObject, int]] = deque((value, 0) for value in _variables())
    own: deque[tuple[AnyObject, int]] = deque()
    seen: set[int] = set()
    while (own or others) and len(seen) < OBJECTS_AT_MOST and engine.leading not in found:
        value, depth = (own or others).popleft()
        if id(value) in seen:
            continue
        seen.add(id(value))
        name = _name_of(engine, type(value))
        if name and name not in found:
            found[name] = weakref.ref(value)
        if depth < DEPTH:
            for held in _held_by(value, engine, attributes):
                (own if _is_engines(type(held), engine) else others).append((held, depth + 1))
    return found


def _variables() -> list[Any]:
    main = sys.modules.get("__main__")
    values = list(plain.variables_of(plain.module_variables(main)).values()) if main is not None else []
    for running in stacks.running():
        values += running.variables.values()
    return values


def _name_of(engine: EngineFacts, cls: type) -> str:
    """The name in the table of objects of this class, "" for most."""
    if not plain.flags_of(cls) & plain.HEAP_TYPE:
        return ""
    bases = {(plain.module_name(base), plain.class_name(base)) for base in plain.mro_of(cls)}
    return next((name for name, known in engine.classes.items() if known in bases), "")


def _held_by(value: AnyObject, engine: EngineFacts, attributes: AttributeReader) -> list[Any]:
    """What an object leads to: elements, and attributes if it is the engine's or the program's own."""
    cls = type(value)
    if cls in (list, tuple):
        return list(value[:ELEMENTS_AT_MOST])
    if cls is dict:
        return list(value.values())[:ELEMENTS_AT_MOST] if len(value) <= COPIED_AT_MOST else []
    if not _is_engines(cls, engine) and not _is_programs(cls):
        return []
    return [held for _, held in attributes.items(value)]


def _is_engines(cls: type, engine: EngineFacts) -> bool:
    is_made_in_python = plain.flags_of(cls) & plain.HEAP_TYPE
    return bool(is_made_in_python) and plain.module_name(cls).partition(".")[0] in engine.packages


def _is_programs(cls: type) -> bool:
    """Whether a class is the program's own, and not an installed library's."""
    known = dict.get(sys.modules, plain.module_name(cls)) if plain.flags_of(cls) & plain.HEAP_TYPE else None
    if known is None or not issubclass(type(known), type(sys)):
        return False
    variables = plain.module_variables(known)
    return not stacks.is_library(variables) and not stacks.is_of_package(variables)
