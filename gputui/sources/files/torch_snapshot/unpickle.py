"""Reads a pickle that holds dictionaries, lists, tuples, strings and numbers, and refuses anything else.

Python's own unpickler makes any object that a pickle asks for, and takes 5 GiB for 500 MB of a trace without stacks.
This one makes no objects, reads a window at a time, and leaves the events of a trace to `EventReader`, which keeps
columns.
"""

from __future__ import annotations

import gc
import struct
from collections.abc import Callable
from typing import Any, BinaryIO

from gputui.sources.files.torch_snapshot.events import EventReader

Progress = Callable[[int], None]
"""Called with the number of bytes read so far; an exception from it ends the reading."""

WINDOW_BYTES = 1024 * 1024
MEMORY_BYTES = 3 * 1024**3
"""What the objects may take, as estimated by `_COSTS`: a pickle can ask for a hundred times its own size."""
LONGEST_TEXT = 1024 * 1024
LONGEST_NUMBER = 32
PROTOCOLS = range(2, 6)

LIST_COST, DICT_COST, ITEM_COST, PAIR_COST, NUMBER_COST, TEXT_COST = 72, 72, 8, 100, 40, 64
"""Bytes of an empty list, an empty dictionary, an item, a pair, a number and an empty text in CPython."""


class PickleError(Exception):
    """Why a pickle cannot be read, as the end of a sentence."""


DAMAGED = "it is damaged"
CUT_OFF = "it was cut off"


def unpickle(file: BinaryIO, progress: Progress) -> tuple[object, EventReader]:
    """The object that a file holds, with the events that `EventRun`s in it stand for. Raises PickleError."""
    was_enabled = gc.isenabled()
    gc.disable()  # it would go through millions of new objects again and again
    try:
        machine = _Machine(file, progress)
        return machine.run(), machine.events
    except (IndexError, TypeError, UnicodeDecodeError, struct.error, AttributeError):
        raise PickleError(DAMAGED) from None
    finally:
        if was_enabled:
            gc.enable()


class _Machine:
    """Runs a pickle, which is a program for a stack machine; `at` is the place of the next instruction in `window`."""

    def __init__(self, file: BinaryIO, progress: Progress) -> None:
        self._file = file
        self._progress = progress
        self._read_bytes = 0
        self.window = b""
        self.at = 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: list[Any] = []
        self.memory_bytes = MEMORY_BYTES
        self.events = EventReader(self.memo, self.stack)

    def run(self) -> object:
        """Run to the STOP instruction."""
        if self.take(1) != b"\x80" or self.take(1)[0] not in PROTOCOLS:
            raise PickleError("it is of another protocol of pickle")
        instructions = INSTRUCTIONS
        while True:
            if self.at >= len(self.window):
                self._fill(1)
            code = self.window[self.at]
            if code == STOP:
                return self.stack.pop()
            self.at += 1
            instruction = instructions[code]
            if instruction is None:
                raise PickleError(REFUSED.get(code, DAMAGED))
            instruction(self)

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        end = self.at + count
        if end > len(self.window):
            self._fill(count)
            end = count
        data = self.window[self.at : end]
        self.at = end
        return data

    def _fill(self, count: int) -> None:
        """Read on until at least `count` bytes are in the window."""
        if self.memory_bytes < self.events.memory_bytes:
            cause = f"its objects would take more than {MEMORY_BYTES // 1024**3} GiB of memory"
            raise PickleError(cause)
        pieces = [self.window[self.at :]]
        missing = count - len(pieces[0])
        while missing > 0:
            piece = self._file.read(max(WINDOW_BYTES, min(missing, LONGEST_TEXT)))
            if not piece:
                raise PickleError(CUT_OFF)
            self._read_bytes += len(piece)
            self._progress(self._read_bytes)
            pieces.append(piece)
            missing -= len(piece)
        self.window, self.at = b"".join(pieces), 0

    def push(self, value: object, cost: int) -> None:
        """Push a new object that takes `cost` bytes."""
        self.memory_bytes -= cost + ITEM_COST
        self.stack.append(value)

    def pop_to_mark(self) -> list[Any]:
        """Pop what was pushed since the last mark."""
        place = self.marks.pop()
        items = self.stack[place:]
        del self.stack[place:]
        return items

    def put(self, index: int) -> None:
        """Remember the topmost object under a number."""
        self.memory_bytes -= ITEM_COST
        if index == len(self.memo):
            self.memo.append(self.stack[-1])
        elif index < len(self.memo):
            self.memo[index] = self.stack[-1]
        else:
            raise PickleError(DAMAGED)

    def number(self, layout: struct.Struct) -> int:
        """The next bytes as a number."""
        number: int = layout.unpack(self.take(layout.size))[0]
        return number


U1, U2, U4, I4, U8, F8 = (struct.Struct(code) for code in ("<B", "<H", "<I", "<i", "<Q", ">d"))


def _empty_dict(machine: _Machine) -> None:
    start = machine.at - 1
    end = machine.events.read(machine.window, start)
    if end > start:
        machine.at = end
    else:
        machine.push({}, DICT_COST)


def _memoize(machine: _Machine) -> None:
    machine.memory_bytes -= ITEM_COST
    machine.memo.append(machine.stack[-1])


def _mark(machine: _Machine) -> None:
    machine.memory_bytes -= NUMBER_COST
    machine.marks.append(len(machine.stack))


def _number(layout: struct.Struct) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(machine.number(layout), NUMBER_COST)


def _long(layout: struct.Struct) -> Callable[[_Machine], None]:
    def push(machine: _Machine) -> None:
        count = machine.number(layout)
        if not 0 <= count <= LONGEST_NUMBER:
            cause = f"it holds a number of {count} bytes"
            raise PickleError(cause)
        machine.push(int.from_bytes(machine.take(count), "little", signed=True), NUMBER_COST)

    return push


def _text(layout: struct.Struct) -> Callable[[_Machine], None]:
    def push(machine: _Machine) -> None:
        count = machine.number(layout)
        if count > LONGEST_TEXT:
            cause = f"it holds a text of {count} bytes"
            raise PickleError(cause)
        machine.push(machine.take(count).decode("utf-8", "surrogatepass"), TEXT_COST + 4 * count)

    return push


def _constant(value: object) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(value, 0)


def _get(layout: struct.Struct) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(machine.memo[machine.number(layout)], 0)


def _put(layout: struct.Struct) -> Callable[[_Machine], None]:
    def put(machine: _Machine) -> None:
        machine.events.stop()  # it counts on objects that are numbered in their order
        machine.put(machine.number(layout))

    return put


def _tuple(count: int) -> Callable[[_Machine], None]:
    def push(machine: _Machine) -> None:
        items = tuple(machine.stack[len(machine.stack) - count :]) if count else ()
        if len(items) < count:
            raise PickleError(DAMAGED)
        if count:
            del machine.stack[-count:]
        machine.push(items, LIST_COST + ITEM_COST * count)

    return push


def _marked_tuple(machine: _Machine) -> None:
    items = tuple(machine.pop_to_mark())
    machine.push(items, LIST_COST + ITEM_COST * len(items))


def _append(machine: _Machine) -> None:
    item = machine.stack.pop()
    _extend(machine, [item])


def _extend(machine: _Machine, items: list[Any]) -> None:
    target = machine.stack[-1]
    if type(target) is not list:
        raise PickleError(DAMAGED)
    machine.memory_bytes -= ITEM_COST * len(items)
    target += items


def _set_item(machine: _Machine) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    _update(machine, [key, value])


def _update(machine: _Machine, items: list[Any]) -> None:
    target, keys = machine.stack[-1], items[::2]
    if type(target) is not dict or len(items) % 2:
        raise PickleError(DAMAGED)
    if not all(type(key) is str for key in keys):  # numbers could be chosen so that a dictionary takes hours
        raise PickleError("a key of it is not a text")
    machine.memory_bytes -= PAIR_COST * len(keys)
    target.update(zip(keys, items[1::2], strict=True))


STOP = ord(".")
INSTRUCTIONS: list[Callable[[_Machine], None] | None] = [None] * 256
for _code, _instruction in {
    b"}": _empty_dict,
    b"]": lambda machine: machine.push([], LIST_COST),
    b")": _tuple(0),
    b"(": _mark,
    b"\x85": _tuple(1),
    b"\x86": _tuple(2),
    b"\x87": _tuple(3),
    b"t": _marked_tuple,
    b"a": _append,
    b"e": lambda machine: _extend(machine, machine.pop_to_mark()),
    b"s": _set_item,
    b"u": lambda machine: _update(machine, machine.pop_to_mark()),
    b"K": _number(U1),
    b"M": _number(U2),
    b"J": _number(I4),
    b"G": _number(F8),
    b"\x8a": _long(U1),
    b"\x8b": _long(I4),
    b"X": _text(U4),
    b"\x8c": _text(U1),
    b"\x8d": _text(U8),
    b"N": _constant(None),
    b"\x88": _constant(True),
    b"\x89": _constant(False),
    b"h": _get(U1),
    b"j": _get(U4),
    b"q": _put(U1),
    b"r": _put(U4),
    b"\x94": _memoize,
    b"\x95": lambda machine: machine.take(U8.size) and None,
}.items():
    INSTRUCTIONS[_code[0]] = _instruction

_OBJECTS = "it holds objects, not only numbers and texts"
REFUSED = {
    **dict.fromkeys(b"cioRb\x81\x82\x83\x84\x92\x93PQ", _OBJECTS),
    **dict.fromkeys(b"BC\x8e\x96\x97\x98TU", "it holds bytes"),
    **dict.fromkeys(b"\x8f\x90\x91", "it holds a set"),
    **dict.fromkeys(b"FILSVgpld012", "it is of an old protocol of pickle"),
}
"""Why a pickle with one of these instructions is refused, as the end of a sentence."""
