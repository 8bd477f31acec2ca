"""Reads the tensors in a long container, and in the objects, dictionaries and tuples in it, in loops of C.

An element of such a container is called a record. A search takes some microseconds for each object; a record takes less
than one. So a look that may stop the program for longer reads thousands of them. Only tensors are found.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, compress, islice, repeat
from operator import is_
from typing import Any, NamedTuple

from gputui.probe.objects import opaque, plain
from gputui.probe.objects.attributes import AttributeReader
from gputui.probe.objects.functions import closure_of
from gputui.probe.objects.kinds import (
    FUNCTION,
    GENERATOR,
    MAPPING,
    OBJECT,
    OPAQUE,
    SEQUENCE,
    TENSOR,
    TypeClassifier,
    base_of,
)
from gputui.probe.objects.torch_types import AnyObject
from gputui.probe.pace.meter import Meter

RECORDS_AT_MOST = 32_768
"""How many elements of one container are read."""
RECORDS_AT_ONCE = 2048
"""How many elements, with one tensor each, are read between two questions whether there is time left."""
RECORDS_PER_STEP = 4
"""How many elements count as one step of the meter."""
VALUES_AT_ONCE = 1 << 15
"""How many values that records of one type hold are read at once; the rest is left out."""
SAMPLE = 32
"""If this many first elements lead to no tensor, the others are not read."""
LEVELS = 3
"""How many levels of a record are read: `batches[3][1].fields['image']` is at the third level."""
TYPES_AT_MOST = 8
"""How many types the records of one container may have."""
ONE_BY_ONE = frozenset((FUNCTION, OPAQUE, GENERATOR))
"""The kinds of records that cannot be read in loops of C: only one in `FEWER` of the usual number is read at once."""
FEWER = 8
HOLDERS = frozenset((SEQUENCE, MAPPING, OBJECT)) | ONE_BY_ONE
"""The kinds of records."""
UNREADABLE = (RuntimeError, AttributeError, TypeError)
"""The errors that reading a container raises if another thread changes it, or an object that is still being made."""


class Found(NamedTuple):
    """Tensors with their names; `is_whole` says whether nothing was left out."""

    names: list[str]
    tensors: list[Any]
    is_whole: bool

    def __add__(self, other: Found) -> Found:  # type: ignore[override]
        return Found(self.names + other.names, self.tensors + other.tensors, self.is_whole and other.is_whole)


NOTHING, NOT_READ = Found([], [], is_whole=True), Found([], [], is_whole=False)


class _Fields(NamedTuple):
    """The values of some records one after another, with their keys; `sizes` says how many each record has."""

    sizes: list[int]
    keys: list[Any]
    values: list[Any]
    text_of: Callable[[Any], str]
    """What a key adds to the name."""


class RecordReader:
    """Reads records without running any of the program's code."""

    def __init__(
        self, classifier: TypeClassifier, attributes: AttributeReader, *, passed_over: type | None = None
    ) -> None:
        self._classifier = classifier
        self._attributes = attributes
        self._passed_over = passed_over
        """Objects of this class inside records are not read: for trees and chains, whose objects come one by one."""
        self._has_read_one_by_one = False

    def of_objects(self, objects: list[Any], name: str) -> Found:
        """The tensors in the attributes of these objects of one type; all objects have this name."""
        return self._inside(OBJECT, [name] * len(objects), objects, LEVELS)

    @staticmethod
    def length(container: AnyObject, kind: int) -> int:
        """How many elements a list or a dictionary has."""
        return dict.__len__(container) if kind == MAPPING else int(base_of(container).__len__(container))

    def at_the_ends(self, container: AnyObject, kind: int, name: str) -> Found:
        """The tensors in the first and in the last `SAMPLE` elements."""
        length = self.length(container, kind)
        first = self.part(container, kind, name, 0, min(SAMPLE, length))
        return first + self.part(container, kind, name, max(min(SAMPLE, length), length - SAMPLE), length)

    @staticmethod
    def held(container: AnyObject, kind: int, name: str, at_most: int) -> list[tuple[str, Any]]:
        """The first elements of a list or a dictionary, each with its name; none while another thread changes it."""
        try:
            elements, names = _elements(container, kind, name, 0, at_most)
        except RuntimeError:
            return []
        return list(zip(names, elements))

    def part(self, container: AnyObject, kind: int, name: str, first: int, last: int) -> Found:
        """The tensors in the elements of a list or a dictionary from number `first` on and before `last`."""
        try:
            elements, names = _elements(container, kind, name, first, last)
        except RuntimeError:  # another thread changes it
            return NOT_READ
        return self._tensors(names, elements, LEVELS)

    def elements(self, container: AnyObject, kind: int, name: str, start: int, meter: Meter) -> Found:
        """The tensors in the elements of a list or a dictionary from number `start` on; `name` is the container's."""
        elements, names = _elements(container, kind, name, start, start + RECORDS_AT_MOST)
        self._has_read_one_by_one = False
        found = self._tensors(names[:SAMPLE], elements[:SAMPLE], LEVELS)
        if not found.tensors:
            return NOT_READ
        most = RECORDS_AT_ONCE // (FEWER if self._has_read_one_by_one else 1)
        at_once = max(1, most * SAMPLE // max(SAMPLE, len(found.tensors)))
        for first in range(SAMPLE, len(elements), at_once):
            if not meter.spend(RECORDS_AT_ONCE // RECORDS_PER_STEP):
                return found + NOT_READ
            part = slice(first, first + at_once)
            found += self._tensors(names[part], elements[part], LEVELS)
        return found

    def _tensors(self, names: list[str], values: list[Any], levels: int) -> Found:
        """The tensors among these values, and those that the values hold."""
        kinds = self._classifier.kinds_of(values)
        among = set(kinds)
        is_tensor = list(map(TENSOR.__eq__, kinds)) if TENSOR in among else []
        found = Found(list(compress(names, is_tensor)), list(compress(values, is_tensor)), is_whole=True)
        holders = HOLDERS & among
        if not holders or levels == 0:
            return found._replace(is_whole=not holders)
        if holders != among:
            is_holder = list(map(holders.__contains__, kinds))
            names, values, kinds = (list(compress(column, is_holder)) for column in (names, values, kinds))
        types = list(map(type, values))
        classes = {id(cls): (cls, kind) for cls, kind in zip(types, kinds)}
        for cls, kind in islice(classes.values(), TYPES_AT_MOST):
            if cls is self._passed_over:
                continue
            if len(classes) == 1:
                return found + self._inside(kind, names, values, levels)
            of_class = list(map(is_, types, repeat(cls)))
            found += self._inside(kind, list(compress(names, of_class)), list(compress(values, of_class)), levels)
        return found if len(classes) <= TYPES_AT_MOST else found + NOT_READ

    def _inside(self, kind: int, names: list[str], records: list[Any], levels: int) -> Found:
        """The tensors that these records of one type hold."""
        self._has_read_one_by_one |= kind in ONE_BY_ONE
        try:
            columns = self._objects(records) if kind == OBJECT else [_COLUMNS[kind](records)]
        except UNREADABLE:
            return NOT_READ
        found = NOTHING
        for fields in columns:
            values = fields.values[:VALUES_AT_ONCE]
            kinds = self._classifier.kinds_of(values)
            owners = compress(chain.from_iterable(map(repeat, names, fields.sizes)), kinds)
            inner = list(map(str.__add__, owners, _texts(list(compress(fields.keys, kinds)), fields.text_of)))
            found += self._tensors(inner, list(compress(values, kinds)), levels - 1)
            found += NOTHING if len(values) == len(fields.values) else NOT_READ
        return found

    def _objects(self, records: list[Any]) -> list[_Fields]:
        """The attributes of objects of one type: those in `__dict__`, and those in slots."""
        fields = []
        namespaces = self._attributes.dicts_of(records)
        if namespaces:
            fields.append(_mappings(namespaces)._replace(text_of=_attribute))
        names, columns = self._attributes.slots_of(records)
        if names:
            size = len(names)
            values = list(chain.from_iterable(zip(*columns)))
            fields.append(_Fields([size] * len(records), names * len(records), values, _attribute))
        return fields


def _elements(container: AnyObject, kind: int, name: str, start: int, end: int) -> tuple[list[Any], list[str]]:
    """The elements from number `start` on and before `end`, and their names."""
    if kind == MAPPING:
        items = list(islice(dict.items(container), start, end))
        return [value for _, value in items], [f"{name}[{plain.key_text(key)}]" for key, _ in items]
    base = base_of(container)
    elements = list(islice(base.__iter__(container), start, end))
    return elements, [f"{name}[{number}]" for number in range(start, start + len(elements))]


def _mappings(records: list[Any]) -> _Fields:
    sizes = list(map(dict.__len__, records))
    keys = list(chain.from_iterable(map(dict.keys, records)))
    values = list(chain.from_iterable(map(dict.values, records)))
    if not sum(sizes) == len(keys) == len(values):
        raise RuntimeError("A dictionary has changed.")
    return _Fields(sizes, keys, values, _element)


def _sequences(records: list[Any]) -> _Fields:
    rows = list(map(list, map(base_of(records[0]).__iter__, records)))
    sizes = list(map(len, rows))
    keys = list(chain.from_iterable(map(range, sizes)))
    return _Fields(sizes, keys, list(chain.from_iterable(rows)), "[{}]".format)


def _opaque(records: list[Any]) -> _Fields:
    return _rows(list(map(opaque.contents, records)), str)


def _functions(records: list[Any]) -> _Fields:
    return _rows(list(map(closure_of, records)), _in_function)


def _generators(records: list[Any]) -> _Fields:
    return _rows(opaque.variables_in(records), _attribute)


def _rows(rows: list[list[tuple[str, Any]]], text_of: Callable[[Any], str]) -> _Fields:
    items = list(chain.from_iterable(rows))
    return _Fields(list(map(len, rows)), [key for key, _ in items], [value for _, value in items], text_of)


_COLUMNS = {
    MAPPING: _mappings,
    SEQUENCE: _sequences,
    FUNCTION: _functions,
    OPAQUE: _opaque,
    GENERATOR: _generators,
}


def _texts(keys: list[Any], text_of: Callable[[Any], str]) -> list[str]:
    """What each of these keys adds to the name; most records have the same keys."""
    idents = list(map(id, keys))
    texts = {ident: text_of(key) for ident, key in dict(zip(idents, keys)).items()}
    return list(map(texts.__getitem__, idents))


def _attribute(key: AnyObject) -> str:
    return f".{plain.name_of(key) or ''}"


def _in_function(key: str) -> str:
    """What a variable of a function adds to the name: nothing for `self`, as a method is called like its object."""
    return key if key[:1] in ".[" else "" if key == "self" else f".{key}"


def _element(key: AnyObject) -> str:
    return f"[{plain.key_text(key)}]"
