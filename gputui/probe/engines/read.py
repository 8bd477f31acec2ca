"""Finds an engine's objects once, and then reads what they say, by the table of facts.

The objects are found from the variables of running functions, by the modules and names of their classes.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from typing import Any, Dict

from gputui.probe.engines.facts import ENGINES, NUMBER, TEXT, TRUTH, WHOLE, EngineFacts, Facts, Places
from gputui.probe.guards.originals import perf_counter
from gputui.probe.objects import plain, stacks
from gputui.probe.objects.attributes import AttributeReader
from gputui.probe.objects.stacks import Namespace
from gputui.probe.objects.torch_types import AnyObject, tensor_base

FIRST_REST_S, LONGEST_REST_S = 1.0, 64.0
"""How long to wait between searches for an engine that is imported and was not found: a search takes milliseconds."""
ELEMENTS_AT_MOST = 256
"""How many groups of layers, cache tensors and requests are read."""
LONGEST_TEXT, LARGEST = 200, 1e18
_NOTHING = object()
_SIZED = (list, tuple, dict, set, deque)


class EngineReader:
    """Reads the engine of this process, if there is one, and keeps none of its objects alive."""

    def __init__(self) -> None:
        self._found: Found = {}
        self._search_at, self._rest_s = float("-inf"), FIRST_REST_S
        """When (`perf_counter`) to search again at the earliest, and how long to wait after that search."""

    def read(self) -> dict[str, Any] | None:
        """The fields of `model.attached.serving.Serving`; None without a known engine."""
        reading = self._reading()
        return reading.fields() if reading else None

    def namespaces(self) -> list[Namespace]:
        """More variables for the search for tensors: an engine's frames lead to its tensors only while it computes."""
        reading = self._reading()
        variables = reading.variables() if reading else {}
        return [Namespace("", is_function=False, variables=variables)] if variables else []

    def _reading(self) -> _Reading | None:
        engine = next((one for one in ENGINES if any(map(sys.modules.__contains__, one.modules))), None)
        if engine is None:
            return None
        attributes, objects = AttributeReader(), self._objects()
        has_some = objects.keys() - {engine.leading} or _is_made(engine, objects.get(engine.leading), attributes)
        if not has_some and perf_counter() >= self._search_at:
            self._found = find(engine, attributes) if not engine.must_run or _runs(engine) else {}
            self._search_at, self._rest_s = perf_counter() + self._rest_s, min(2 * self._rest_s, LONGEST_REST_S)
            objects = self._objects()
        return _Reading(engine, objects, attributes) if objects else None

    def _objects(self) -> dict[str, Any]:
        """The found objects that are still alive, by name."""
        alive = {name: reference() for name, reference in self._found.items()}
        return {name: value for name, value in alive.items() if value is not None}


class _Reading:
    """One reading: it holds the engine's objects, so it must not outlive the call."""

    def __init__(self, engine: EngineFacts, objects: dict[str, Any], attributes: AttributeReader) -> None:
        self._engine = engine
        self._objects = dict(objects)
        self._attributes = attributes
        for name, places in engine.among.items():
            if name not in self._objects and (value := self._first(places)) is not _NOTHING:
                self._objects[name] = value

    def fields(self) -> dict[str, Any]:
        """The fields of `model.attached.serving.Serving`."""
        engine = self._engine
        fields = {name: self._facts(facts) for name, facts in engine.facts.items()}
        fields["cache"]["groups"] = [
            self._of_another("group", group, engine.group) for group in self._elements(engine.groups)
        ]
        fields["cache"]["tensors"] = [
            self._of_another("tensor", tensor, engine.tensor) for tensor in self._elements(engine.tensors)
        ]
        fields["use"].update(self._requests(), null_blocks=engine.null_blocks)
        is_scheduler = _is_made(engine, self._objects.get(engine.leading), self._attributes)
        role = engine.roles[is_scheduler, "worker" in self._objects]
        return {"name": engine.name, "version": _version(engine.version), "role": role, **fields}

    def variables(self) -> dict[str, Any]:
        """The objects from which a search finds the engine's tensors, by the names that they get."""
        values = {name: self._at(place) for name, place in self._engine.variables.items()}
        values.update(_global(place) for place in self._engine.caches)
        return {name: value for name, value in values.items() if value is not _NOTHING and value is not None}

    def _facts(self, facts: Facts) -> dict[str, Any]:
        return {name: self._value(places, kind) for name, (places, kind) in facts.items()}

    def _of_another(self, name: str, value: AnyObject, facts: Facts) -> dict[str, Any]:
        """The facts of one element of a list: their places begin with `name`."""
        self._objects[name] = value
        try:
            return self._facts(facts)
        finally:
            del self._objects[name]

    def _requests(self) -> dict[str, Any]:
        """Of the running requests that were read: how many, all their tokens, the longest one's, and preemptions."""
        names = self._engine.request
        requests = self._elements(self._engine.requests)
        tokens = [self._under(request, names["tokens"]) for request in requests]
        lengths = [length for length in tokens if type(length) is int]
        fields = {
            "requests_read": len(lengths),
            "tokens": sum(lengths),
            "longest_tokens": max(lengths, default=0),
        }
        if "preemptions" in names:
            counts = [self._under(request, names["preemptions"]) for request in requests]
            fields["preemptions"] = sum(count for count in counts if type(count) is int)
        return fields

    def _value(self, places: Places, kind: str) -> AnyObject:
        for place in places:
            parts = [self._part(part, kind) for part in place.split(" + ")]
            if all(part is not None for part in parts):
                return sum(parts) if len(parts) > 1 else parts[0]
        return None

    def _part(self, place: str, kind: str) -> AnyObject:
        place, _, by = place.partition(" / ")
        if by:
            whole, divisor = self._part(place, kind), self._part(by, kind)
            return whole // divisor if whole is not None and divisor else None
        path, sharp, _ = place.partition("#")
        value = self._at(path)
        return _length(value) if sharp else _converted(value, kind)

    def _first(self, places: Places) -> AnyObject:
        values = (self._at(place) for place in places)
        return next((value for value in values if value is not _NOTHING and value is not None), _NOTHING)

    def _elements(self, places: Places) -> list[Any]:
        value = self._first(places)
        if value is _NOTHING or type(value) in (list, tuple, dict):
            return _elements_of(value)[:ELEMENTS_AT_MOST]
        return [value]

    def _at(self, path: str) -> AnyObject:
        start, _, rest = path.partition(".")
        return self._under(self._objects.get(start, _NOTHING), rest)

    def _under(self, value: AnyObject, path: str) -> AnyObject:
        for name in filter(None, path.split(".")):
            if value is _NOTHING:
                return value
            value = _only(value) if name == "*" else self._own(value, name)
        return value

    def _own(self, owner: AnyObject, name: str) -> AnyObject:
        own = self._attributes.own_dict(owner)
        if own is not None and name in own:
            return own[name]
        return self._attributes.read(owner).get(name, _NOTHING) if own is None else _NOTHING


def _elements_of(value: AnyObject) -> list[Any]:
    """The elements of a list, or the values of a dictionary; [] for anything else, and for a very long dictionary."""
    if type(value) in (list, tuple):
        return list(value[:ELEMENTS_AT_MOST])
    return list(value.values()) if type(value) is dict and len(value) <= COPIED_AT_MOST else []


def _only(value: AnyObject) -> AnyObject:
    elements = _elements_of(value)
    return elements[0] if len(elements) == 1 else _NOTHING


def _length(value: AnyObject) -> int | None:
    """The number of elements of a container, past a subclass's `__len__`, or of rows of a tensor; None for others."""
    torch = sys.modules.get("torch")
    if torch is not None and type(value) is torch.Tensor:
        shape = tensor_base(torch).shape.__get__(value)
        return shape[0] if shape else None
    base = next((base for base in _SIZED if issubclass(type(value), base)), None)
    return None if base is None else base.__len__(value)


def _converted(value: AnyObject, kind: str) -> AnyObject:
    """The value in a type that JSON has; None if it is not of this kind."""
    cls = type(value)
    if kind == TRUTH:
        return value if cls is bool else None
    if kind == WHOLE:  # bytes may be a float: a product with a share
        return int(value) if cls is int or (cls is float and abs(value) < LARGEST) else None
    if kind == NUMBER:
        return value if cls in (int, float) else None
    if kind == TEXT and issubclass(cls, str):
        return plain.text(value)[:LONGEST_TEXT]
    torch = sys.modules.get("torch")
    return str(value).replace("torch.", "") if kind == TEXT and cls is getattr(torch, "dtype", None) else None


def _global(place: str) -> tuple[str, AnyObject]:
    """The name and the value of a module's variable; the value is None if the module or the variable is missing."""
    module, _, name = place.rpartition(".")
    known = sys.modules.get(module)
    return name, dict.get(plain.module_variables(known), name) if known is not None else None


def _version(place: str) -> str:
    return plain.name_of(_global(place)[1]) or ""


engine_reader = EngineReader()
"""The only instance in this process, shared by all viewers."""


Found = Dict[str, "weakref.ref[Any]"]
"""Weak references to the objects, by their names in the table."""
DEPTH = 5
"""How many steps lead from a variable to an engine at most: such as a server's state, the client, the engine."""
OBJECTS_AT_MOST = 3000
SEARCHED_AT_MOST = 64
"""How many elements of a container are searched for an engine."""
COPIED_AT_MOST = 4096
"""A dictionary with more values is skipped, as reading one copies all of them."""


def find(engine: EngineFacts, attributes: AttributeReader) -> Found:
    """Search breadth-first from the variables of running functions and the globals of the main program.

    What the engine's own objects hold is searched before all else.
    """
    found: Found = {}
    others: deque[tuple[AnyObject, int]] = deque((value, 0) for value in _variables())
    own: deque[tuple[AnyObject, int]] = deque()
    seen: set[int] = set()
    is_over = False
    while (own or others) and len(seen) < OBJECTS_AT_MOST and not is_over:
        value, depth = (own or others).popleft()
        if id(value) in seen:
            continue
        seen.add(id(value))
        name = _name_of(engine, type(value))
        if name and name not in found:
            found[name] = weakref.ref(value)
            is_over = name == engine.leading and _is_made(engine, value, attributes)
        if depth < DEPTH:
            for held in _held_by(value, engine, attributes):
                (own if _is_engines(type(held), engine) else others).append((held, depth + 1))
    return found


def _is_made(engine: EngineFacts, leading: AnyObject, attributes: AttributeReader) -> bool:
    return leading is not None and engine.made in attributes.read(leading)


def _runs(engine: EngineFacts) -> bool:
    """Whether a thread is in a function of one of the engine's modules."""
    modules = [id(plain.module_variables(known)) for name in engine.modules if (known := sys.modules.get(name))]
    return any(id(frame.f_globals) in modules for frames in stacks.stacks_by_thread().values() for frame in frames)


def _variables() -> list[Any]:
    main = sys.modules.get("__main__")
    values = list(plain.variables_of(plain.module_variables(main)).values()) if main is not None else []
    for running in stacks.running():
        values += running.variables.values()
    return values


def _name_of(engine: EngineFacts, cls: type) -> str:
    """The name that the table gives an object of this class; "" for most."""
    if not plain.flags_of(cls) & plain.HEAP_TYPE:
        return ""
    bases = {(plain.module_name(base), plain.class_name(base)) for base in plain.mro_of(cls)}
    return next((name for name, known in engine.classes.items() if known in bases), "")


def _held_by(value: AnyObject, engine: EngineFacts, attributes: AttributeReader) -> list[Any]:
    """The elements of a container; the attributes of an object of the engine's or the program's own; [] for others."""
    cls = type(value)
    if cls in (list, tuple):
        return list(value[:SEARCHED_AT_MOST])
    if cls is dict:
        return list(value.values())[:SEARCHED_AT_MOST] if len(value) <= COPIED_AT_MOST else []
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
