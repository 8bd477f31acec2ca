"""What a step requests of the allocator: each new storage is a request, and its end is a free."""

from __future__ import annotations

import os
import sys
import weakref
from typing import Any, Callable

import torch
from torch import Tensor

UNKNOWN = "other"
NOT_THE_PROGRAMS = tuple(os.path.dirname(os.path.abspath(path)) + os.sep for path in (__file__, torch.__file__))
"""Folders whose lines are not named as the origin of a request: this package's, and PyTorch's."""


class Numbered:
    """Numbers values from 0, in the order in which they first come."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def of(self, value: Any) -> int:
        """The number of a value."""
        return self.numbers.setdefault(value, len(self.numbers))


class Requests:
    """The requests and frees in order.

    `events` has the number of a request where it is made, and -1 - number where it is freed; `sizes_bytes`,
    `categories`, `modules`, `element_bytes` (0 if not floating point), `streams`, `operations` and `lines` are by that
    number. The last two are numbers in `operation_names` and `places` (file, line). `marks`: the parts' first events.
    """

    def __init__(self) -> None:
        self.events: list[int] = []
        self.sizes_bytes: list[int] = []
        self.categories: list[str] = []
        self.modules: list[str] = []
        self.element_bytes: list[int] = []
        self.operations: list[int] = []
        self.lines: list[int] = []
        self.operation_names = Numbered()
        self.places = Numbered()
        self.marks: list[tuple[int, str]] = []
        self.on_mark: Callable[[str], None] = lambda _name: None
        """Called with the name of each part that begins."""
        self.streams: list[int] = []
        self.stream = 0
        self.current_module = ""
        self.current_operation = ""
        self.category = UNKNOWN
        self._live: dict[int, tuple[weakref.ref, int]] = {}  # type: ignore[type-arg]

    def mark(self, name: str, category: str) -> None:
        """Begin a part of the step; `category` is that of its requests until `name` says another."""
        self.marks.append((len(self.events), name))
        self.on_mark(name)
        self.category = category

    def begin(self, operation: Any) -> None:
        """Begin an operation of PyTorch, which is the origin of the next requests."""
        packet = getattr(operation, "overloadpacket", operation)
        self.current_operation = packet.__name__

    def add(self, size_bytes: int, category: str | None = None, *, element_bytes: int = 0) -> int:
        """Record a request, also one without a tensor, such as a workspace; returns its number."""
        number = len(self.sizes_bytes)
        self.events.append(number)
        self.sizes_bytes.append(size_bytes)
        self.categories.append(category or self.category)
        self.streams.append(self.stream)
        self.modules.append(self.current_module)
        self.element_bytes.append(element_bytes)
        self.operations.append(self.operation_names.of(self.current_operation))
        self.lines.append(self.places.of(_line()))
        return number

    def free(self, number: int) -> None:
        """Record the free of a request."""
        self.events.append(-1 - number)

    def see(self, tensor: Tensor) -> None:
        """Record a tensor's storage if it is new."""
        self.see_storage(tensor.untyped_storage(), tensor.element_size() if tensor.dtype.is_floating_point else 0)

    def see_storage(self, storage: Any, element_bytes: int = 0) -> None:
        """Record a storage if it is new, or has another size than before."""
        size_bytes = storage.nbytes()
        key = storage._cdata
        known = self._live.get(key)
        if known is not None:
            if self.sizes_bytes[known[1]] == size_bytes:
                return
            self.free(known[1])  # it was resized
        elif not size_bytes:
            return
        if not size_bytes:
            del self._live[key]
            return
        number = self.add(size_bytes, element_bytes=element_bytes)
        self._live[key] = (weakref.ref(storage, self._ending(key)), number)

    def _ending(self, key: int) -> Any:
        def end(ended: Any) -> None:
            known = self._live.get(key)
            if known is not None and known[0] is ended:
                del self._live[key]
                self.free(known[1])

        return end

    def name(self, tensor: Any, category: str, module: str | None = None) -> None:
        """Set the category and the module of a tensor's request; of a DTensor, that of this rank's part."""
        tensor = getattr(tensor, "_local_tensor", tensor)
        if isinstance(tensor, Tensor):
            known = self._live.get(tensor.untyped_storage()._cdata)
            if known is not None:
                self.categories[known[1]] = category
                if module is not None:
                    self.modules[known[1]] = module


def _line() -> tuple[str, int]:
    """The innermost line of Python outside PyTorch and this package; ("", 0) in a backward pass, which has none."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(NOT_THE_PROGRAMS):
            return ("", 0) if file.startswith("<") else (file, frame.f_lineno)
        frame = frame.f_back
    return "", 0
