"""Mutations of a probe's messages: absurd values that the decoder accepts, and messages that it must refuse."""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from enum import Enum
from random import Random
from typing import Any, Union, get_args, get_origin, get_type_hints

from gputui.model.attached.owners import EXCEPTIONS, OwnerKind, OwnerName
from gputui.model.decode import field_names, is_record
from gputui.model.reading import Problem
from gputui.protocol import frames

CONTROL_SEQUENCES = "\x1b[99m\x1b]0;owned\x07\x9b99m\n\r\b\u202e\u2066\x00\ud800"
"""What must never reach a terminal: sequences, a window title, line ends, and marks that reverse the text."""

TEXTS = (
    "",
    " ",
    CONTROL_SEQUENCES,
    "model" + CONTROL_SEQUENCES + ".weight",
    "[bold red]markup[/] [@click=app.quit]quit[/] {braces} %s",
    "\N{CJK UNIFIED IDEOGRAPH-8A13}" * 300,
    "e" + "\N{COMBINING ACUTE ACCENT}" * 4000,
    "\N{COMBINING ACUTE ACCENT}" * 20,
    "\N{FAMILY}\N{ZERO WIDTH JOINER}\N{WOMAN}\N{VARIATION SELECTOR-16}",
    "\N{ARABIC LETTER ALEF}\N{HEBREW LETTER ALEF}",
    "." * 3000,
    "a.b[" * 900,
    "x" * 100_000,
    "train.py:1 in f",
    "٣",
    "-1",
    "0",
)
INTEGERS = (0, 1, -1, 2, 7, 100, 1 << 20, 1 << 31, -(1 << 31), 1 << 40, 1 << 53, 1 << 63, (1 << 64) - 1, 1 - (1 << 64))
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-308, 1e9, 9.9e11, -9.9e11)
LENGTHS = (0, 0, 1, 2, 3, 40)
RATES = (0.0, 0.001, 0.005, 0.03, 0.3)
"""The share of a message's values that one mutation changes."""


class Mutator:
    """Random mutations, the same ones for the same state of `random`."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._rate = 0.0

    def accepted(self, kind: Any, message: dict[str, Any]) -> dict[str, Any]:
        """The message of a class of the model with other values of the same types."""
        self._rate = self._random.choice(RATES)
        return {"type": message["type"], **self._fields(kind, message)}

    def refused(self, message: dict[str, Any]) -> bytes:
        """A frame with a message that the decoder most likely refuses, or bytes that are no frame at all."""
        ways: tuple[Callable[[dict[str, Any]], bytes], ...] = (
            self._with_another_type,
            self._without_a_field,
            self._deep,
            self._not_json,
            self._another_length,
            self._noise,
            self._unknown_type,
        )
        return self._random.choice(ways)(message)

    def _fields(self, kind: Any, value: dict[str, Any]) -> dict[str, Any]:
        hints = get_type_hints(kind)
        return {name: self._value(hints[name], value[name]) for name in field_names(kind) if name in value}

    def _value(self, kind: Any, value: Any) -> Any:
        """The value, changed with the probability of the current rate, and so are the values in it."""
        if isinstance(value, dict) and "absent" in value:
            return {**value, "absent": self._random.choice(TEXTS)} if self._is_hit() else value
        inner = _without_none(kind)
        if value is None or (inner is not kind and self._is_hit()):
            return self._invented(inner) if value is None and self._is_hit() else None
        if is_record(inner) and inner is not Problem:
            return self._fields(inner, value)
        if get_origin(inner) is tuple:
            return self._items(get_args(inner), value)
        return self._invented(inner) if self._is_hit() else value

    def _items(self, kinds: tuple[Any, ...], value: list[Any]) -> list[Any]:
        if kinds[-1] is not Ellipsis:
            return [self._value(kind, item) for kind, item in zip(kinds, value, strict=True)]
        items = [self._value(kinds[0], item) for item in value]
        if self._is_hit():
            items = self._random.choices(items, k=self._random.choice(LENGTHS)) if items else items
        if self._is_hit():
            self._random.shuffle(items)
        return items

    def _invented(self, kind: Any) -> Any:
        """A value of a simple type, or a container without content."""
        if isinstance(kind, type) and issubclass(kind, Enum):
            return self._random.choice([member.value for member in kind])
        made: dict[Any, Callable[[], Any]] = {
            bool: lambda: self._random.random() < 0.5,
            int: lambda: self._random.choice((*INTEGERS, self._random.randrange(1 << 36))),
            float: lambda: self._random.choice((*FLOATS, *INTEGERS[:8])),
            str: lambda: self._random.choice(TEXTS),
            Problem: lambda: self._random.choice(TEXTS),
            OwnerName: self._owner,
        }
        if kind in made:
            return made[kind]()
        return [] if get_origin(kind) is tuple else None

    def _owner(self) -> str | list[str]:
        """The facts of an owner of any kind, or a text, as probes before version 5 of the protocol send."""
        facts = self._random.choices(TEXTS, k=7)
        facts[2] = self._random.choice([kind.value for kind in OwnerKind])
        facts[5] = self._random.choice(["", *EXCEPTIONS])
        return self._random.choice((facts, facts[0]))

    def _is_hit(self) -> bool:
        return self._random.random() < self._rate

    def scrambled(self, value: Any) -> Any:
        """A copy of a JSON value, with one value in it replaced by one that is most likely of another type."""
        changed = json.loads(json.dumps(value))
        holder: Any = changed
        while True:
            key = self._random.choice([*(holder if isinstance(holder, dict) else range(len(holder)))])
            if not holder[key] or not isinstance(holder[key], (dict, list)) or self._random.random() < 0.2:
                break
            holder = holder[key]
        others = (
            None,
            True,
            [],
            {},
            [[]],
            {"absent": 1},
            "",
            CONTROL_SEQUENCES,
            1.5,
            10**400,
            -(1 << 70),
            [None] * 100,
        )
        holder[key] = self._random.choice(others)
        return changed

    def _with_another_type(self, message: dict[str, Any]) -> bytes:
        return _frame(self.scrambled(message))

    def _without_a_field(self, message: dict[str, Any]) -> bytes:
        gone = self._random.choice(list(message))
        return _frame({key: value for key, value in message.items() if key != gone})

    def _deep(self, message: dict[str, Any]) -> bytes:
        key, depth = self._random.choice(list(message)), self._random.choice((10, 400, 900, 100_000))
        opening, closing = self._random.choice((("[", "]"), ('{"a":', "}")))
        body = {name: value for name, value in message.items() if name != key}
        text = json.dumps(body)[:-1] + f', "{key}": ' + opening * depth + "1" + closing * depth + "}"
        return frames.frame(text.encode())

    def _not_json(self, message: dict[str, Any]) -> bytes:
        words = (b"", b"{", b"null", b"[]", b'"x"', b"\xff\xfe", b'{"type": NaN}', b'{"type":"look","time":Infinity}')
        return frames.frame(self._random.choice(words))

    def _another_length(self, message: dict[str, Any]) -> bytes:
        whole = _frame(message)
        length = self._random.choice((0, 1, len(whole), frames.MAX_REPLY_BYTES, frames.MAX_REPLY_BYTES + 1, 2**32 - 1))
        return frames.header(length) + whole[frames.HEADER_BYTES :]

    def _noise(self, message: dict[str, Any]) -> bytes:
        whole = bytearray(_frame(message))
        for _ in range(self._random.randrange(1, 20)):
            whole[self._random.randrange(len(whole))] = self._random.randrange(256)
        return bytes(whole)

    def _unknown_type(self, message: dict[str, Any]) -> bytes:
        reason = self._random.choice(TEXTS)
        kind = self._random.choice(("hello", "refused", "failed", "ended", "x", CONTROL_SEQUENCES))
        return _frame({**message, "type": kind, "reason": reason, "gputui": reason, "is_exit": True, "error": reason})


def _without_none(kind: Any) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        return next(argument for argument in get_args(kind) if argument is not type(None))
    return kind


def _frame(message: object) -> bytes:
    return frames.frame(json.dumps(message).encode())
