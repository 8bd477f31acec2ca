"""The variables of running functions, read without leaving a trace.

`frame.f_locals` must not be used before Python 3.13. It copies every local into a dictionary that the frame keeps, so a
tensor that the program deletes would stay alive, and a dictionary that the program got from `locals()` would change.
There, the variables are read from the frame's own memory.
"""

from __future__ import annotations

import ctypes
import gc
import re
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, compress, repeat
from operator import add, and_, attrgetter, eq, getitem
from types import CellType, CodeType, FrameType
from typing import Any, NamedTuple

CO_OPTIMIZED = 0x1
"""CPython's flag of functions, whose variables have slots; those of a module or class are in a dictionary."""


class FrameLayout(NamedTuple):
    """Offsets in bytes. The frame object has the address of its data at `pointer`; the other offsets are in that data.

    If `pointer` is None, the frame object itself has the data.
    """

    pointer: int | None
    code: int
    globals: int
    variables: int


FRAME_LAYOUTS = {
    (3, 8): FrameLayout(pointer=None, code=32, globals=48, variables=360),
    (3, 9): FrameLayout(pointer=None, code=32, globals=48, variables=360),
    (3, 10): FrameLayout(pointer=None, code=32, globals=48, variables=352),
    (3, 11): FrameLayout(pointer=24, code=32, globals=8, variables=72),
    (3, 12): FrameLayout(pointer=24, code=0, globals=24, variables=72),
}
"""From CPython's frameobject.h and pycore_frame.h on 64-bit machines; verified on each frame before use."""
POINTER = ctypes.sizeof(ctypes.c_void_p)
_LAYOUT = FRAME_LAYOUTS.get(sys.version_info[:2]) if POINTER == 8 else None
TRIES = 3
"""How often all frames are read together while another thread deletes variables; then each frame is read alone."""
_Word, _Bytes, _Objects = ctypes.c_uint64, ctypes.c_char * (1 << 20), ctypes.py_object * (1 << 24)
"""Types to read memory with: of the arrays, only the first elements are read."""
_code_of, _globals_of, _flags_of = attrgetter("f_code"), attrgetter("f_globals"), attrgetter("co_flags")
_value_of = attrgetter("value")
_part_of: Callable[[Any, slice], bytes] = getitem
_runs = re.compile(b"\x01+").finditer


def variables(frame: FrameType) -> dict[str, Any]:
    """The local variables of a function's frame and those it uses of enclosing ones.

    {} if they cannot be read, and for the body of a module or class.
    """
    return variables_of([frame])[0]


def variables_of(frames: list[FrameType]) -> list[dict[str, Any]]:
    """The same for each of these frames."""
    codes = list(map(_code_of, frames))
    are_functions = map(CO_OPTIMIZED.__and__, map(_flags_of, codes))
    if sys.version_info >= (3, 13):  # here `f_locals` is a view of the frame, not a copy that it keeps
        return [dict(frame.f_locals) if is_function else {} for frame, is_function in zip(frames, are_functions)]
    if _LAYOUT is None:
        return [{} for _ in frames]
    are_known = map(and_, map(bool, are_functions), _are_known(frames, codes, _LAYOUT))
    names = [_names_of_slots(code) if is_known else () for code, is_known in zip(codes, are_known)]
    found = _read_variables(list(map(id, frames)), names, _LAYOUT)
    for own, code in zip(found, codes):
        if code.co_cellvars or code.co_freevars:
            _open_cells(own, (*code.co_cellvars, *code.co_freevars))
    return found


def can_read_variables() -> bool:
    """Whether this interpreter's frames can be read: CPython, on a 64-bit machine before 3.13."""
    probe = sys.implementation.name
    return probe == "cpython" and (sys.version_info >= (3, 13) or variables(sys._getframe()).get("probe") is probe)


def is_filled(cell: CellType) -> bool:
    """Whether the variable of a closure's cell has a value."""
    return bool(gc.get_referents(cell))


def _read_variables(idents: list[int], names: list[tuple[str, ...]], layout: FrameLayout) -> list[dict[str, Any]]:
    """The variables that have a value, by name, of each frame, given the frame's id and the names of its slots.

    Another thread may run between two instructions of Python, and return from a function or delete a variable. So one
    call of C finds the slots that have values, and a second one takes the values. Both start from the frames, as the
    data of a frame moves when its function returns.
    """
    for _ in range(TRIES):
        sizes = list(map(slice, map(POINTER.__mul__, map(len, names))))
        are_filled = bytes(map(bool, array("Q", _read(_places(idents, repeat(layout.variables), layout), sizes))))
        runs = list(_runs_of(idents, names, are_filled, layout.variables))
        frames, offsets, lengths = zip(*runs) if runs else ((), (), ())
        try:
            parts = list(map(getitem, map(_Objects.from_address, _places(frames, offsets, layout)), lengths))
        except ValueError:  # a slot has no value any more
            continue
        values, filled = chain.from_iterable(parts), iter(are_filled)
        return [dict(zip(compress(own, filled), values)) for own in names]
    if len(names) == 1:
        return [{}]
    return [_read_variables([ident], [own], layout)[0] for ident, own in zip(idents, names)]


def _runs_of(
    idents: list[int], names: list[tuple[str, ...]], are_filled: bytes, offset: int
) -> Iterator[tuple[int, int, slice]]:
    """Runs of neighbouring slots with values: the id of the frame, where the run begins in its data, and its length.

    `are_filled` says of the slots of all frames whether they have a value.
    """
    first = 0
    for ident, own in zip(idents, names):
        last = first + len(own)
        for run in _runs(are_filled, first, last):
            start, end = run.span()
            yield ident, offset + (start - first) * POINTER, slice(end - start)
        first = last


def _places(frames: Iterable[int], offsets: Iterable[int], layout: FrameLayout) -> Iterator[int]:
    """The addresses at these offsets, in bytes, in the data of these frames."""
    if layout.pointer is None:
        return map(add, frames, offsets)
    return map(add, map(_value_of, map(_Word.from_address, map(layout.pointer.__add__, frames))), offsets)


def _are_known(frames: list[FrameType], codes: list[CodeType], layout: FrameLayout) -> Iterable[bool]:
    """Whether the data of each frame has the code and globals of that frame where the layout says."""
    width = max(layout.code, layout.globals) // POINTER + 1
    begins = _places(map(id, frames), repeat(0), layout)
    words = array("Q", _read(begins, repeat(slice(width * POINTER))))
    has_code = map(eq, words[layout.code // POINTER :: width], map(id, codes))
    has_globals = map(eq, words[layout.globals // POINTER :: width], map(id, map(_globals_of, frames)))
    return map(and_, has_code, has_globals)


def _read(addresses: Iterable[int], parts: Iterable[slice]) -> bytes:
    """The bytes of a part of the memory from each address on, all read in one call of C."""
    return b"".join(map(_part_of, map(_Bytes.from_address, addresses), parts))


def _names_of_slots(code: CodeType) -> tuple[str, ...]:
    """In the order of the slots: a comprehension's variable has another one than a free variable of its name."""
    cells: Iterable[str] = code.co_cellvars
    if cells and sys.version_info >= (3, 11):  # an argument that is a cell keeps its place among the arguments
        cells = [name for name in cells if name not in code.co_varnames]
    return (*code.co_varnames, *cells, *code.co_freevars)


def _open_cells(found: dict[str, Any], cells: tuple[str, ...]) -> None:
    """Put the variables of enclosing functions in place of the cells that hold them."""
    for name in cells:
        value = found.get(name)
        if type(value) is CellType:
            del found[name]
            if is_filled(value):
                found[name] = value.cell_contents
