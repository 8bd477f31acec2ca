"""Filters: words, or expressions such as `user==ana and mem>10GiB`, turned into a predicate over rows."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from gputui.errors import UsageError
from gputui.units import GIB, KIB, MIB, TIB

R = TypeVar("R")

Value = str | float | None

Field = Callable[[R], Value]
Predicate = Callable[[R], bool]


class Quantity(NamedTuple):
    """Units of a field's numbers: `units` has their factors by lower-case name, `words` names them in errors."""

    units: Mapping[str, float]
    words: str
    needs_unit: bool = False


SIZE = Quantity(
    {f"{letter}{ending}": step for letter, step in zip("kmgt", (KIB, MIB, GIB, TIB), strict=True)
     for ending in ("", "ib", "b")},
    "KiB, MiB, GiB or TiB", needs_unit=True,
)  # fmt: skip
"""A number alone, such as 1000, could be bytes or MiB, so a size other than 0 needs a unit."""
DURATION = Quantity({"s": 1, "min": 60, "h": 3600, "d": 86400}, "s, min, h or d", needs_unit=True)
PERCENT = Quantity({"%": 1}, "%")
COUNT = Quantity({}, "")


@dataclass(frozen=True)
class Fields(Generic[R]):
    """The fields of rows of type `R` for filters; any comparison with an unknown value (None) is false, `!=` too.

    A filter without a comparison searches its words in the fields `searched`; `other_names` maps aliases to fields.
    Fields without an entry in `quantities` are compared as text.
    """

    by_name: Mapping[str, Field[R]]
    searched: tuple[str, ...]
    other_names: Mapping[str, str] = field(default_factory=dict)
    quantities: Mapping[str, Quantity] = field(default_factory=dict)

    def named(self, name: str) -> str:
        """The name in `by_name` of a field or alias; raises UsageError where there is no such field."""
        own = self.other_names.get(name, name)
        if own not in self.by_name:
            raise UsageError(f"The filter has no field {name!r}; it has {', '.join(self.by_name)}.")
        return own

    def text_of(self, row: R) -> str:
        """The text of a row in which words without a comparison are searched, case-folded."""
        parts = (self.by_name[name](row) for name in self.searched)
        return " ".join(str(part) for part in parts if part is not None).casefold()


COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}

TOKEN = re.compile(r"""\s*(?:(?P<sign>==|!=|>=|<=|!~|=|~|>|<|\(|\))|"(?P<quoted>[^"]*)"|(?P<word>[^\s()=!<>~"]+|!))""")


def parse_filter(text: str, fields: Fields[R]) -> Predicate[R] | None:
    """The predicate for `text`, None for an empty text.

    Without a comparison, every word must occur in the searched fields. Raises UsageError for a wrong expression.
    """
    if not text.strip():
        return None
    if not _is_expression(text):
        words = text.casefold().split()
        return lambda row: all(word in fields.text_of(row) for word in words)
    parser = _Parser(_tokens(text), fields)
    predicate = parser.either()
    parser.expect_end()
    return predicate


def compared_fields(text: str, fields: Fields[R]) -> tuple[str, ...]:
    """The names of the fields that a valid filter compares, each once, in the order of the filter."""
    if not _is_expression(text):
        return ()
    parser = _Parser(_tokens(text), fields)
    parser.either()
    return tuple(dict.fromkeys(parser.compared))


def _is_expression(text: str) -> bool:
    return re.search(r"[=<>~]", text) is not None


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
        self.compared: list[str] = []

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
        own = self._fields.named(name)
        self.compared.append(own)
        sign = self._next(f"a comparison after {name}")
        if not sign.is_sign or sign.text in "()":
            raise UsageError(f"The filter needs a comparison such as == or > after {name!r}.")
        value = self._next(f"a value after {name}{sign.text}").text
        return _test(self._fields.by_name[own], self._fields.quantities.get(own), name, sign.text, value)

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


def _test(getter: Field[R], quantity: Quantity | None, name: str, sign: str, expected: str) -> Predicate[R]:
    if sign in ("~", "!~"):
        part = expected.casefold()
        return lambda row: (value := getter(row)) is not None and (part in str(value).casefold()) == (sign == "~")
    if sign in COMPARISONS:
        compare, limit = COMPARISONS[sign], _number(name, sign, expected, quantity or COUNT)
        return lambda row: (value := _as_number(getter(row))) is not None and compare(value, limit)
    if quantity is None:
        text = expected.casefold()
        return lambda row: (value := getter(row)) is not None and (str(value).casefold() == text) == (sign != "!=")
    number = _number(name, sign, expected, quantity)
    return lambda row: (value := getter(row)) is not None and (value == number) == (sign != "!=")


def _as_number(value: Value) -> float | None:
    """The number to compare: text of digits, such as the device "3", counts as its number; None for other text."""
    if not isinstance(value, str):
        return value
    return float(value) if re.fullmatch(r"\d+(\.\d+)?", value, re.ASCII) else None


def _number(name: str, sign: str, text: str, quantity: Quantity) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z%]*)", text.casefold(), re.ASCII)
    if match is None or (match[2] and match[2] not in quantity.units):
        of_unit = f" with a unit ({quantity.words})" if quantity.words else ""
        raise UsageError(f"The filter needs a number after {name}{of_unit}, not {text!r}.")
    if quantity.needs_unit and not match[2] and float(match[1]):
        raise UsageError(f"The filter needs a unit after {name}{sign}{text}: {quantity.words}.")
    return float(match[1]) * quantity.units.get(match[2], 1)
