"""Reads the events of a trace straight from a pickle into columns: a trace can have ten million events.

The events of a snapshot look alike: the same keys in the same order, references to strings and stacks that came
before, and small numbers. So the first event of each shape is taken apart, and a regular expression made from its keys
finds the events that follow. What does not match (a new stack, an event across the end of a window) is left to the
unpickler, which makes a dictionary of it.
"""

from __future__ import annotations

import re
from array import array
from typing import Any, NamedTuple

from gputui.protocol.trace_events import ACTIONS

CODES = {action: code for code, action in enumerate(ACTIONS)}
PoolId = tuple[int, int]
NO_STACK = NO_POOL = -1

_GET = rb"(?:h.|j.{4})"
_NUMBER = rb"(?:K.|M.{2}|J.{4}|\x8a(?:" + b"|".join(rb"\x%02x.{%d}" % (n, n) for n in range(1, 9)) + rb"))"
_TEXT = rb"(?:\x8c(?:" + b"|".join(rb"\x%02x.{%d}" % (n, n) for n in range(64)) + rb")\x94?)"
_PAIR_OF_NUMBERS = rb"(?:%b%b\x86\x94?)" % (_NUMBER, _NUMBER)
_LIST = rb"(?:\]\x94?(?:\(%b+e|%ba)?)" % (_GET, _GET)
_VALUE = rb"(?:%b|%b|%b|%b|%b|[N\x88\x89]|G.{8})" % (_GET, _PAIR_OF_NUMBERS, _NUMBER, _TEXT, _LIST)
_SHAPE = re.compile(rb"\}\x94?\((?:%b%b)+u" % (_GET, _VALUE), re.DOTALL)
_NUMBERS = re.compile(rb"(%b)(%b)\x86\x94?" % (_NUMBER, _NUMBER), re.DOTALL)
_NUMBER_BEGINS = frozenset(b"KMJ\x8a")
_REFERENCE = re.compile(_GET, re.DOTALL)
_PAIR = re.compile(rb"(%b)(%b)" % (_GET, _VALUE), re.DOTALL)

_TOKENS = {"action": _GET, "addr": _NUMBER, "device_free": _NUMBER, "size": _NUMBER, "stream": _NUMBER}
_TOKENS |= {"time_us": _NUMBER, "frames": rb"(?:%b|%b)" % (_GET, _LIST)}
_TOKENS |= {"pool_id": rb"(?:%b|%b)" % (_GET, _PAIR_OF_NUMBERS)}
"""The form that the value of each key must have; values of other keys may have any form, and are skipped."""
_NEEDED = {"action", "size"}
_MEMOIZED, _ABSENT = 0, 1
"""Groups in the pattern of each shape: whether the event itself goes into the memo, and an always empty group."""
_MEMOIZE, _LIST_BEGINS, _TEXT_BEGINS, _HEADER_BYTES = b"\x94", 0x5D, 0x8C, 2
CACHED_AT_MOST = 1 << 18
_MEMOIZED_KEYS = ("frames", "pool_id")
SHAPES_AT_MOST = 64
POOLS_AT_MOST = 1024
EVENT_COST = 64
"""Bytes that a row of the columns and its entries in the memo take."""


class EventRun:
    """Stands in a list for events that are in the columns, from row `start` to before row `end`."""

    __slots__ = ("end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end


class _Gone:
    """Stands in the memo for an event that became a row of the columns: no snapshot refers to an event again."""


GONE = _Gone()


class _Shape(NamedTuple):
    """A pattern for events with the same keys; `places` are the groups of the values, by key.

    `memoized` are the groups of values that may go into the memo, in order; `references` are the keys in the pickle.
    """

    pattern: re.Pattern[bytes]
    places: dict[str, int]
    memoized: tuple[int, ...]
    references: tuple[bytes, ...]


def _shape(references: tuple[bytes, ...], keys: list[Any]) -> _Shape:
    pattern, places, memoized = rb"\}(\x94?)()\(", {}, []
    for group, (reference, key) in enumerate(zip(references, keys, strict=True), 2):
        token = _TOKENS.get(key)
        pattern += re.escape(reference) + rb"(%b)" % (token or _VALUE)
        places[key] = group
        if token is None or key in _MEMOIZED_KEYS:
            memoized.append(group)
    return _Shape(re.compile(pattern + b"u", re.DOTALL), places, tuple(memoized), references)


class EventReader:
    """Has the columns, and the shapes of the events so far; `stacks` has each stack as its list of frames.

    `memo` and `stack` are the unpickler's. `memory_bytes` is an estimate of what the columns take.
    """

    def __init__(self, memo: list[Any], stack: list[Any]) -> None:
        self._memo = memo
        self._stack = stack
        self._shapes: list[_Shape] = []
        self._is_on = True
        self._numbers: dict[bytes, int] = {}
        self._codes: dict[bytes, int | None] = {}
        self._texts: dict[str, str] = {}
        self._stack_tokens: dict[bytes, int] = {b"": NO_STACK}
        self._stack_numbers: dict[int, int] = {}
        self._pool_tokens: dict[bytes, int] = {b"": NO_POOL}
        self.pools: list[PoolId] = []
        self.pool_column = array("h")
        self.memory_bytes = 0
        self.stacks: list[list[Any]] = []
        self.actions = bytearray()
        self.addresses, self.sizes_bytes, self.streams, self.times_us, self.stack_column = (array("q") for _ in "12345")

    def stop(self) -> None:
        """Leave everything to the unpickler from now on."""
        self._is_on = False

    def read(self, window: bytes, start: int) -> int:
        """Read the events at `start` in the window; returns where the last one ends, `start` if there is none."""
        if not self._is_on:
            return start
        for shape in self._shapes:
            end = self._read_alike(shape, window, start)
            if end > start:
                return end
        new = self._shape_at(window, start)
        if new is None:
            return start
        self._shapes.append(new)
        return self._read_alike(new, window, start)

    def _shape_at(self, window: bytes, start: int) -> _Shape | None:
        """The shape of the event at `start`; None if there is no event, or one of a known shape with unusual values."""
        match = _SHAPE.match(window, start)
        if match is None:
            return None
        pairs = [pair.groups() for pair in _PAIR.finditer(window, window.index(b"(", start) + 1, match.end() - 1)]
        references = tuple(reference for reference, _ in pairs)
        keys = [self._memo[_number(reference)] for reference in references]
        is_known = any(shape.references == references for shape in self._shapes)
        if is_known or len(self._shapes) >= SHAPES_AT_MOST or not all(type(key) is str for key in keys):
            return None
        shape = _shape(references, keys) if _NEEDED.issubset(keys) else None
        return shape if shape and shape.pattern.match(window, start) else None

    def _read_alike(self, shape: _Shape, window: bytes, start: int) -> int:
        """Read consecutive events of one shape."""
        first, end = len(self.actions), start
        action, size, stream, time, frames, pool = (
            shape.places.get(key, _ABSENT) for key in ("action", "size", "stream", "time_us", "frames", "pool_id")
        )
        address = shape.places.get("addr") or shape.places.get("device_free", _ABSENT)
        for match in iter(shape.pattern.scanner(window, start).match, None):  # type: ignore[attr-defined]
            values = match.groups()
            if values[_MEMOIZED]:
                self._memo.append(GONE)
            for place in shape.memoized:
                self._memoize(values[place])
            end = match.end()
            code = self._code(values[action])
            if code is not None:
                self.actions.append(code)
                self.addresses.append(self._cached(values[address]))
                self.sizes_bytes.append(self._cached(values[size]))
                self.streams.append(self._cached(values[stream]))
                self.times_us.append(_number(values[time]))
                self.stack_column.append(self._stack_number(values[frames]))
                self.pool_column.append(self._pool_number(values[pool]))
        if end > start:
            self._push(first)
        return end

    def _push(self, first: int) -> None:
        """Push a run for the new events, or extend the last run if they follow it."""
        self.memory_bytes += EVENT_COST * (len(self.actions) - first)
        last = self._stack[-1] if self._stack else None
        if type(last) is EventRun and last.end == first:
            last.end = len(self.actions)
        else:
            self._stack.append(EventRun(first, len(self.actions)))

    def _memoize(self, token: bytes) -> None:
        """Put a value into the memo if the pickle says so."""
        if token[0] == _TEXT_BEGINS and len(token) > _HEADER_BYTES + token[1]:
            text = token[_HEADER_BYTES:-1].decode("utf-8", "surrogatepass")
            self._memo.append(self._texts.setdefault(text, text) if len(self._texts) < CACHED_AT_MOST else text)
        elif token[0] == _LIST_BEGINS and token[1:2] == _MEMOIZE:
            self._memo.append(self.stacks[self._stack_number(token)])
        elif token[0] in _NUMBER_BEGINS and token[-1:] == _MEMOIZE and self._is_pool(token):
            self._memo.append(self.pools[self._pool_number(token)])

    def _code(self, token: bytes) -> int | None:
        if token not in self._codes:
            self._codes[token] = CODES.get(self._memo[_number(token)])
        return self._codes[token]

    def _cached(self, token: bytes) -> int:
        """A number that is likely to come again, from a cache."""
        number = self._numbers.get(token)
        if number is None:
            if len(self._numbers) >= CACHED_AT_MOST:
                self._numbers.clear()
            number = self._numbers[token] = _number(token)
        return number

    def _stack_number(self, token: bytes) -> int:
        """The place in `stacks` of a stack, given as a reference to a list of frames, or as a list of references."""
        number = self._stack_tokens.get(token)
        if number is None:
            number = self._stack_tokens[token] = self._new_stack(token)
        return number

    def _new_stack(self, token: bytes) -> int:
        if token[0] == _LIST_BEGINS:
            references = _REFERENCE.findall(token, 1 + token.startswith(b"](") + token.startswith(b"]\x94(") * 2)
            frames = [self._memo[_number(reference)] for reference in references]
        else:
            frames = self._memo[_number(token)]
            if type(frames) is not list:
                raise TypeError(frames)
        self.memory_bytes += 200 + 16 * len(frames)
        number = self._stack_numbers.setdefault(id(frames), len(self.stacks))
        if number == len(self.stacks):
            self.stacks.append(frames)
        return number

    def _is_pool(self, token: bytes) -> bool:
        return token in self._pool_tokens or _NUMBERS.fullmatch(token) is not None

    def _pool_number(self, token: bytes) -> int:
        """The place in `pools` of a pool's id, which is a pair of numbers."""
        number = self._pool_tokens.get(token)
        if number is None:
            parts = _NUMBERS.fullmatch(token)
            pool = (_number(parts[1]), _number(parts[2])) if parts else self._memo[_number(token)]
            if type(pool) is not tuple or [type(part) for part in pool] != [int, int]:
                raise TypeError(pool)
            if pool not in self.pools:
                self.pools.append(pool)
            number = self._pool_tokens[token] = self.pools.index(pool)
            if number >= POOLS_AT_MOST:
                raise TypeError(pool)
        return number


def _number(token: bytes) -> int:
    """The number that an instruction pushes, or that a reference names; 0 for b""."""
    first = token[:1]
    if first == b"\x8a":
        return int.from_bytes(token[2:], "little", signed=True)
    return int.from_bytes(token[1:], "little", signed=first == b"J")
