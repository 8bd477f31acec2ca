"""Objects of the program by their addresses: found again in a later stop, and not kept alive until then.

Lists, dictionaries and tuples have no weak references. What proves that an object is still there is Python's garbage
collector: it links all objects that it tracks, and unlinks each before it is freed. So if the next object in that list
points back to an address, and the type there is the same as before, the object is there, or one of its type that has
taken its place. Call this while no garbage is collected: a collection moves objects from list to list.
"""

from __future__ import annotations

import ctypes
import sys
from array import array
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import accumulate, compress, repeat, starmap
from operator import attrgetter, getitem
from typing import Any, NamedTuple

from gputui.probe.guards.descriptors import close_file, open_file
from gputui.probe.objects.torch_types import AnyObject

WORD = 8
LINKS = 2 * WORD
"""The size of the collector's two links, which lie before the object: to the next and to the one before."""
HEAD = LINKS + 2 * WORD
"""The size of these links, the object's count of references, and its type."""
FLAGS = 3
"""The lowest two bits of a link are flags of the collector's."""
AT_ONCE = 256
"""How many objects are looked up together."""
TRIES = 2
"""How often objects are looked up together if another thread frees one of them before they are taken."""
OWN_REFERENCES = 2
"""The references to an object that nobody else holds: by a dictionary here, and by the call that counts."""
_raw = attrgetter("raw")
_item: Callable[[Any, Any], Any] = getitem


class Handle(NamedTuple):
    """Where an object is, and where its type is."""

    address: int
    type_address: int


def handle_of(value: AnyObject) -> Handle:
    """The handle of an object that the collector tracks."""
    return Handle(id(value), id(type(value)))


def objects_of(handles: list[Handle]) -> list[Any]:
    """The object of each handle: None where it is gone, or where memory cannot be read in this way."""
    found: dict[Handle, Any] = {}
    try:
        memory = open_file("/proc/self/mem")
    except OSError:  # no /proc, or a program that lets nobody look into it
        return [None] * len(handles)
    try:
        for first in range(0, len(handles), AT_ONCE):
            found.update(_found(handles[first : first + AT_ONCE], memory))
    finally:
        close_file(memory)
    for handle in list(found):
        if sys.getrefcount(found[handle]) <= OWN_REFERENCES:  # it was a list of this module's
            del found[handle]
    return [found.get(handle) for handle in handles]


def _found(handles: list[Handle], memory: int) -> dict[Handle, Any]:
    """The objects that are there, looked up by halves if one of them keeps changing, as this module's own lists do."""
    for _ in range(TRIES):
        tracked = _tracked(handles, memory)
        objects = _taken(tracked, memory) if tracked else []
        if objects is not None:
            return dict(zip([entry.handle for entry in tracked], objects))
    half = len(handles) // 2
    return {**_found(handles[:half], memory), **_found(handles[half:], memory)} if half else {}


class _Tracked(NamedTuple):
    """An object that the collector lists: its two links, and the link `back` of the next object, which points to it."""

    handle: Handle
    after: int
    before: int
    back: int

    @property
    def next_back_at(self) -> int:
        """The address of the link `back`."""
        return (self.after & ~FLAGS) + WORD


def _tracked(handles: list[Handle], memory: int) -> list[_Tracked]:
    """The objects among these that the collector still lists, of the same type as before."""
    read = _Memory([(handle.address - LINKS, HEAD) for handle in handles]).read(memory)
    if read is None:  # some were in memory that is not there any more
        half = len(handles) // 2
        return [*_tracked(handles[:half], memory), *_tracked(handles[half:], memory)] if half else []
    words = array("Q", read)
    size = HEAD // WORD
    rows = zip(handles, words[::size], words[1::size], words[size - 1 :: size])
    linked = [
        _Tracked(handle, after, before, 0)
        for handle, after, before, own in rows
        if own == handle.type_address and after
    ]
    backs = array("Q", _Memory([(entry.next_back_at, WORD) for entry in linked]).read(memory) or ())
    pointed_to = [entry._replace(back=back) for entry, back in zip(linked, backs)]
    return [entry for entry in pointed_to if entry.back & ~FLAGS == entry.handle.address - LINKS]


def _taken(tracked: list[_Tracked], memory: int) -> list[Any] | None:
    """The objects themselves; None if one of them is not listed any more.

    One call of C reads the memory again, and takes the objects if it has not changed: nothing can be freed in between.
    """
    addresses = [entry.handle.address for entry in tracked]
    links = [(address - LINKS, LINKS) for address in addresses]
    types = [(address + WORD, WORD) for address in addresses]
    parts = _Memory([*links, *types, *((entry.next_back_at, WORD) for entry in tracked)])
    expected = array("Q", [link for entry in tracked for link in (entry.after, entry.before)])
    expected.extend([entry.handle.type_address for entry in tracked])
    expected.extend([entry.back for entry in tracked])
    words = array("Q", addresses)
    objects = (ctypes.py_object * len(words)).from_buffer(words)
    is_same = map(expected.tobytes().__eq__, parts.reading(memory))
    taken: Iterator[list[Any]] = map(_item, repeat(objects), compress(repeat(slice(None), 1), is_same))
    return next(taken, None)


class _Memory:
    """Parts of this process's memory: addresses, each with a number of bytes."""

    def __init__(self, parts: list[tuple[int, int]]) -> None:
        sizes = [size for _, size in parts]
        self._buffer = ctypes.create_string_buffer(sum(sizes) or 1)
        starts = accumulate([ctypes.addressof(self._buffer), *sizes])
        self._parts = list(zip(starts, sizes, [address for address, _ in parts]))

    def reading(self, descriptor: int) -> Iterator[bytes]:
        """An iterator over one item, or none if a part is missing: it reads when asked for the item, in C alone."""
        calls = starmap(_pread(), [(descriptor, *part) for part in self._parts])
        sums = map(sum, [calls])
        return map(_raw, compress([self._buffer], map(sum(size for _, size, _ in self._parts).__eq__, sums)))

    def read(self, descriptor: int) -> bytes | None:
        """The bytes of the parts one after another; None if a part is missing."""
        return next(self.reading(descriptor), None) if self._parts else b""


@lru_cache(maxsize=None)
def _pread() -> Callable[..., int]:
    """The system's call that reads a file, here memory: it fails where there is none, and keeps Python's lock."""
    call = ctypes.PyDLL(None).pread
    call.argtypes = (ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t)
    call.restype = ctypes.c_ssize_t
    return call
