"""Filters: words, or expressions such as `user==ana and mem>10GiB`, turned into a predicate over rows."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gputui.errors import UsageError
from gputui.units import GIB, KIB, MIB

R = TypeVar("R")

Value = str | float | None

Field = Callable[[R], Value]
Predicate = Callable[[R], bool]


@dataclass(frozen=True)
class Fields(Generic[R]):
    """The fields of rows of type `R` for filters; a comparison with an unknown value is false.

    Words without a comparison are searched for in the fields `searched`; `other_names` are aliases of fields.
    """

    by_name: Mapping[str, Field[R]]
    searched: tuple[str, ...]
    other_names: Mapping[str, str] = field(default_factory=dict)

    def find(self, name: str) -> Field[R]:
        """The field of this name; raises UsageError where there is none."""
        getter = self.by_name.get(self.other_names.get(name, name))
        if getter is None:
            raise UsageError(f"The filter has no field {name!r}; it has {', '.join(self.by_name)}.")
        return getter

    def text_of(self, row: R) -> str:
        """The text of a row in which words are searched for."""
        parts = (self.by_name[name](row) for name in self.searched)
        return " ".join(str(part) for part in parts if part is not None).casefold()


UNITS = {"k": KIB, "kib": KIB, "kb": KIB, "m": MIB, "mib": MIB, "mb": MIB, "g": GIB, "gib": GIB, "gb": GIB, "%": 1}

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}

TOKEN = re.compile(r"""\s*(?:(?P<sign>==|!=|>=|<=|!~|=|~|>|<|\(|\))|"(?P<quoted>[^"]*)"|(?P<word>[^\s()=!<>~"]+|!))""")


def parse_filter(text: str, fields: Fields[R]) -> Predicate[R] | None:
    """The predicate for `text`, None for an empty one.

    Without a comparison, every word must occur in the searched fields. Raises UsageError for a wrong expression.
    """
    if not text.strip():
        return None
    if not re.search(r"[=<>~]", text):
        words = text.casefold().split()
        return lambda row: all(word in fields.text_of(row) for word in words)
    parser = _Parser(_tokens(text), fields)
    predicate = parser.either()
    parser.expect_end()
    return predicate


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    is_sign: bool


def _tokens(text: str) -> list[_Token]:
    tokens = []
    at = 0
    text = text.rstrip()
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise UsageError(f"The filter has an error at {text[at:].strip()!r}.")
        sign, quoted, word = match["sign"], match["quoted"], match["word"]
        tokens.append(_Token(sign or (quoted if quoted is not None else word), sign is not None))
        at = match.end()
    return tokens


class _Parser(Generic[R]):
    """Recursive descent: either := both ("or" both)*, both := part ("and" part)*, part := "not" part | ( ) | test."""

    def __init__(self, tokens: list[_Token], fields: Fields[R]) -> None:
        self._tokens = tokens
        self._fields = fields
        self._at = 0

    def either(self) -> Predicate[R]:
        left = self._both()
        while self._takes_word("or"):
            left = _any_of(left, self._both())
        return left

    def expect_end(self) -> None:
        if self._at < len(self._tokens):
            raise UsageError(f"The filter has {self._tokens[self._at].text!r} where `and` or `or` is expected.")

    def _both(self) -> Predicate[R]:
        left = self._part()
        while self._takes_word("and"):
            left = _all_of(left, self._part())
        return left

    def _part(self) -> Predicate[R]:
        if self._takes_word("not") or self._takes_word("!"):
            inner = self._part()
            return lambda row: not inner(row)
        if self._takes_sign("("):
            inner = self.either()
            if not self._takes_sign(")"):
                raise UsageError("The filter lacks a closing parenthesis.")
            return inner
        return self._test()

    def _test(self) -> Predicate[R]:
        name = self._next(f"a field such as {' or '.join(self._fields.searched[:2])}").text
        getter = self._fields.find(name)
        sign = self._next(f"a comparison after {name}")
        if not sign.is_sign or sign.text in "()":
            raise UsageError(f"The filter needs a comparison such as == or > after {name!r}.")
        return _test(getter, name, sign.text, self._next(f"a value after {name}{sign.text}").text)

    def _next(self, expected: str) -> _Token:
        if self._at >= len(self._tokens):
            raise UsageError(f"The filter ends where {expected} is expected.")
        self._at += 1
        return self._tokens[self._at - 1]

    def _takes_word(self, word: str) -> bool:
        return self._takes(_Token(word, is_sign=False))

    def _takes_sign(self, sign: str) -> bool:
        return self._takes(_Token(sign, is_sign=True))

    def _takes(self, token: _Token) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at] == token:
            self._at += 1
            return True
        return False


def _any_of(left: Predicate[R], right: Predicate[R]) -> Predicate[R]:
    return lambda row: left(row) or right(row)


def _all_of(left: Predicate[R], right: Predicate[R]) -> Predicate[R]:
    return lambda row: left(row) and right(row)


def _test(getter: Field[R], name: str, sign: str, expected: str) -> Predicate[R]:
    if sign in COMPARISONS:
        compare, limit = COMPARISONS[sign], _number(name, expected)
        return lambda row: isinstance(value := getter(row), (int, float)) and compare(value, limit)
    if sign in ("~", "!~"):
        part = expected.casefold()
        return lambda row: (value := getter(row)) is not None and (part in str(value).casefold()) == (sign == "~")
    number = _number_or_none(expected)
    return lambda row: (value := getter(row)) is not None and _equal(value, expected, number) == (sign != "!=")


def _equal(value: Value, expected: str, number: float | None) -> bool:
    if isinstance(value, str):
        return value.casefold() == expected.casefold()
    return value == number


def _number(name: str, text: str) -> float:
    number = _number_or_none(text)
    if number is None:
        raise UsageError(f"The filter needs a number after {name}, such as 10, 1.5 or 10GiB, not {text!r}.")
    return number


def _number_or_none(text: str) -> float | None:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z%]*)", text.casefold())
    if match is None or (match[2] and match[2] not in UNITS):
        return None
    return float(match[1]) * UNITS.get(match[2], 1)
