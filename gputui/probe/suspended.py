"""Generators and coroutines between two turns: their variables keep tensors, such as a batch read ahead."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType

from gputui.probe import stacks
from gputui.probe.stacks import Namespace
from gputui.probe.torch_types import AnyObject

TYPES = (GeneratorType, CoroutineType, AsyncGeneratorType)
READ_AT_MOST = 64
KNOWN_AT_MOST = 256

_PREFIX = {GeneratorType: "gi", CoroutineType: "cr", AsyncGeneratorType: "ag"}
"""Of the attributes, by type."""
_AWAITED = {GeneratorType: "gi_yieldfrom", CoroutineType: "cr_await", AsyncGeneratorType: "ag_await"}


class Suspended:
    """Belongs to one process; knows those in which something was found, by weak references."""

    def __init__(self) -> None:
        self._known: dict[int, weakref.ref[AnyObject]] = {}

    def with_known(self, found: Iterable[AnyObject]) -> list[AnyObject]:
        """Those of earlier looks that still run, and then these, each once."""
        alive = [(ident, reference()) for ident, reference in self._known.items()]
        self._known = {ident: self._known[ident] for ident, value in alive if value is not None}
        values = [value for _, value in alive if value is not None]
        return list({id(value): value for value in (*values, *found)}.values())

    def remember(self, value: AnyObject) -> None:
        """Look at this one in later looks, too."""
        if len(self._known) < KNOWN_AT_MOST:
            self._known[id(value)] = weakref.ref(value)


def namespaces(files: Mapping[str, str], value: AnyObject) -> list[Namespace]:
    """Its variables, then those of the generators that it waits for; none if it runs or has ended."""
    return [
        Namespace(
            stacks.place(frame.f_code, frame.f_lineno, files),
            is_function=True,
            variables=stacks.variables(frame),
            code=None if stacks.is_of_library(frame) else frame.f_code,
        )
        for frame in _frames(value)
    ]


def _frames(value: AnyObject) -> Iterator[FrameType]:
    for _ in range(READ_AT_MOST):
        if type(value) not in _PREFIX:
            return
        prefix = _PREFIX[type(value)]
        frame: FrameType | None = getattr(value, f"{prefix}_frame")
        if frame is None or getattr(value, f"{prefix}_running"):
            return
        yield frame
        value = getattr(value, _AWAITED[type(value)])
