"""Makes objects of the model from JSON or rows that others wrote; checks types, ranges, lengths and characters.

A decoder is built once for each dataclass or named tuple from its type annotations; a missing field gets its default.
"""

from __future__ import annotations

import dataclasses
import reprlib
import types
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any, NoReturn, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from gputui.model.attached.owners import Keeper, OwnerName
from gputui.model.attached.tensors import Category
from gputui.model.earlier_owners import owner_of_text
from gputui.model.printable import printable
from gputui.model.reading import Absent, AbsentKind, Problem

MAX_TEXT = 4096
MAX_ITEMS = 4_000_000
MAX_INTEGER = 2**64
MAX_NUMBER = 1e12
"""The largest float, enough for epoch seconds and percentages; `time.localtime` fails on much later times."""

T = TypeVar("T")
Decoder = Callable[[object], Any]


class DecodeError(Exception):
    """A malformed message."""


def decode(cls: type[T], value: object) -> T:
    """`value`, as JSON gave it, as an instance of the dataclass or named tuple `cls`; raises DecodeError."""
    kind: Any = cls
    return cast("T", _decoder(kind)(value))


def is_record(kind: Any) -> bool:  # noqa: ANN401
    """Whether a class or a value is a dataclass or a named tuple."""
    return dataclasses.is_dataclass(kind) or hasattr(kind, "_field_defaults")


def field_names(kind: Any) -> tuple[str, ...]:  # noqa: ANN401
    """The field names of a dataclass or named tuple, in order."""
    return getattr(kind, "_fields", None) or tuple(field.name for field in dataclasses.fields(kind))


def _with_defaults(cls: type[Any]) -> set[str]:
    if hasattr(cls, "_field_defaults"):
        return set(cls._field_defaults)
    return {field.name for field in dataclasses.fields(cls) if field.default is not dataclasses.MISSING}


@cache
def _decoder(kind: Any) -> Decoder:  # noqa: ANN401
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if is_record(kind):
        return _object_decoder(cast("type[Any]", kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum_decoder(kind)
    if get_origin(kind) is tuple:
        return _tuple_decoder(get_args(kind))
    if get_origin(kind) is Union and Absent in get_args(kind):
        return _reading_decoder(next(arg for arg in get_args(kind) if arg is not Absent))
    if get_origin(kind) in (Union, types.UnionType) and type(None) in get_args(kind):
        inner = _decoder(next(arg for arg in get_args(kind) if arg is not type(None)))
        return lambda value: None if value is None else inner(value)
    raise TypeError(kind)


def _integer(value: object) -> int:
    if type(value) is not int or not -MAX_INTEGER < value < MAX_INTEGER:
        _fail("an integer", value)
    return value


def _float(value: object) -> float:
    if type(value) not in (int, float) or not -MAX_NUMBER < cast("float", value) < MAX_NUMBER:  # NaN is neither
        _fail("a number", value)
    return float(cast("float", value))


def _text(value: object) -> str:
    if type(value) is not str:
        _fail("a text", value)
    return value if value.isprintable() and len(value) <= MAX_TEXT else printable(value[:MAX_TEXT])[:MAX_TEXT]


def _truth(value: object) -> bool:
    if type(value) is not bool:
        _fail("true or false", value)
    return value


def _problem(value: object) -> Problem:
    """A problem: a sentence, or {"text": sentence, "kind": ...} for another kind than the usual one."""
    return cast("Problem", _object_decoder(Problem)(value)) if isinstance(value, dict) else Problem(_text(value))


def _owner(value: object) -> OwnerName:
    """An owner's name: a list of its facts, without the last ones if these are ""; before version 5, a text."""
    if not isinstance(value, list):
        return owner_of_text(_text(value))
    try:
        return OwnerName(*map(_text, value))
    except (KeyError, TypeError, ValueError):  # a kind or an exception that is unknown, or too many facts
        _fail("an owner", value)


_SIMPLE: dict[Any, Decoder] = {
    int: _integer,
    float: _float,
    str: _text,
    bool: _truth,
    Problem: _problem,
    OwnerName: _owner,
}


def _object_decoder(cls: type[Any]) -> Decoder:
    hints = get_type_hints(cls)
    decoders = {name: _decoder(hints[name]) for name in field_names(cls)}
    required = decoders.keys() - _with_defaults(cls)

    def decode_object(value: object) -> object:
        if not isinstance(value, dict):
            _fail(cls.__name__, value)
        if missing := required - value.keys():
            _fail(f"{cls.__name__}.{min(missing)}", value)
        fields = cast("dict[str, object]", value)
        return cls(**{name: decoder(fields[name]) for name, decoder in decoders.items() if name in fields})

    return decode_object


_OF_LATER: dict[type[Enum], Enum] = {Category: Category.OTHER, Keeper: Keeper.UNKNOWN}  # for later versions' values


def _enum_decoder(kind: type[Enum]) -> Decoder:
    members: dict[object, Enum] = {member.value: member for member in kind}

    def decode_member(value: object) -> Enum:
        member = members.get(value, _OF_LATER.get(kind)) if isinstance(value, str) else None
        if member is None:
            _fail(kind.__name__, value)
        return member

    return decode_member


def _tuple_decoder(kinds: tuple[Any, ...]) -> Decoder:
    """The decoder of `tuple[X, ...]`, which has any length, or of a tuple with a type for each item."""
    is_open = kinds[-1] is Ellipsis
    decoders = [_decoder(kind) for kind in kinds if kind is not Ellipsis]
    one = decoders[0]

    def decode_tuple(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) > MAX_ITEMS or not (is_open or len(value) == len(decoders)):
            _fail("a list", value)
        items = cast("list[object]", value)
        if is_open:
            return tuple([one(item) for item in items])
        return tuple([decoder(item) for decoder, item in zip(decoders, items, strict=True)])

    return decode_tuple


def _reading_decoder(kind: Any) -> Decoder:  # noqa: ANN401
    """The decoder of a value, or of {"absent": reason, "kind": ...}, where the kind may be missing if it is FAILED."""
    inner = _decoder(kind)
    kind_of = _enum_decoder(AbsentKind)

    def decode_reading(value: object) -> Any:  # noqa: ANN401
        if isinstance(value, dict) and "absent" in value:
            return Absent(_text(value["absent"]), kind_of(value.get("kind", AbsentKind.FAILED.value)))
        return inner(value)

    return decode_reading


def _fail(expected: str, value: object) -> NoReturn:
    cause = f"{expected} is expected instead of {printable(reprlib.repr(value)[:60])}"
    raise DecodeError(cause)
