"""What objects of C hold that show no attributes: results of `lru_cache`, iterators, mapping proxies, thread-locals,
asyncio's tasks, and generators and coroutines between two turns.

The garbage collector tells what they refer to; none of the program's code is run.
"""

from __future__ import annotations

import functools
import gc
import itertools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from itertools import chain
from types import (
    AsyncGeneratorType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    MappingProxyType,
)
from typing import Any

from gputui.probe.objects import plain
from gputui.probe.objects.frame_variables import variables_of
from gputui.probe.objects.torch_types import AnyObject

LRU_CACHE = type(functools.lru_cache(maxsize=None)(len))
_ITERATORS: tuple[type, ...] = (
    *(
        type(iter([])),
        type(iter(())),
        type(reversed([])),
        type(iter({})),
        type(iter({}.values())),
        type(iter({}.items())),
    ),
    *(type({}.values()), type({}.items()), zip, map, filter, enumerate, reversed),
    *(cls for cls in vars(itertools).values() if isinstance(cls, type)),
)
_OF_ASYNCIO = "Task", "Future"
_PARTS_OF_ASYNCIO = {"_coro": ""}, {"_result": ".result()", "_exception": ".exception()"}
"""The attributes with what a task or future holds until it is done, and after that, each with its part of the name.

Reading them does not mark an exception as retrieved.
"""
GENERATORS = (GeneratorType, CoroutineType, AsyncGeneratorType)
AWAITED_AT_MOST = 32
"""How many coroutines of one task are read, each of which waits for the next."""
_PREFIXES = dict(zip(GENERATORS, ("gi", "cr", "ag")))
_AWAITED = dict(zip(GENERATORS, ("gi_yieldfrom", "cr_await", "ag_await")))
"""The attribute with what a generator or coroutine waits for."""
_PARTS: dict[AnyObject, list[list[tuple[str, Callable[[AnyObject], Any]]]]] = {}
"""What reads the attributes of tasks and futures, by class, once the program has imported asyncio."""


def types() -> tuple[type, ...]:
    """The types whose objects `contents` reads; those of asyncio only once the program has imported it."""
    for cls in _of_asyncio():
        _PARTS[cls] = [
            [(part, getattr(cls, name).__get__) for name, part in parts.items() if hasattr(cls, name)]
            for parts in _PARTS_OF_ASYNCIO
        ]
    return (LRU_CACHE, MappingProxyType, ContextVar, threading.local, *_ITERATORS, *_PARTS)


def contents(value: AnyObject) -> list[tuple[str, Any]]:
    """What such an object holds, each with its part of the name."""
    cls = type(value)
    if cls is LRU_CACHE:
        return _results(value)
    if cls is ContextVar:
        return [("", ContextVar.get(value, None))]
    if issubclass(cls, threading.local):
        return list(_of_threads(value))
    for base, parts in _PARTS.items():
        if issubclass(cls, base):
            return [(part, read(value)) for part, read in parts[base.done(value)]]
    return [("", held) for held in gc.get_referents(value)]


def cache_of(function: AnyObject) -> dict[Any, Any]:
    """The results of a function with `lru_cache` by its arguments; links to them if it has a `maxsize`."""
    dicts = (held for held in gc.get_referents(function) if type(held) is dict)
    return next((held for held in dicts if "__wrapped__" not in held), {})


def code_of(function: AnyObject) -> CodeType | None:
    """The code of the function whose results a cache keeps."""
    functions = (held for held in gc.get_referents(function) if type(held) is FunctionType)
    return next((held.__code__ for held in functions), None)


def limit_of(function: AnyObject) -> int:
    """The `maxsize` of a cache; 0 without one."""
    return int(LRU_CACHE.cache_info(function).maxsize or 0)


def has_links(cache: dict[Any, Any]) -> bool:
    """Whether a cache has links to its results instead of these; the links cannot be followed one by one."""
    return any(plain.type_name(link) == "_lru_list_elem" for link in itertools.islice(dict.values(cache), 1))


def _of_asyncio() -> list[type]:
    """The classes of tasks and futures, if the program has imported asyncio."""
    module = sys.modules.get("_asyncio")
    return [vars(module)[name] for name in _OF_ASYNCIO if name in vars(module)] if module else []


def _results(function: AnyObject) -> list[tuple[str, Any]]:
    """The results that a cache with a `maxsize` keeps, the oldest first."""
    keys = set(map(id, dict.keys(cache_of(function))))
    held = [value for value in gc.get_referents(function) if id(value) not in keys]
    results = [value for value in held if not plain.is_one_of(type(value), (dict, FunctionType, type))]
    return [(f"[{number}]", result) for number, result in enumerate(results)]


def _of_threads(value: AnyObject) -> Iterable[tuple[str, Any]]:
    """The attributes of a thread-local object in all threads, each of which has a dictionary of its own."""
    by_thread = (held for held in gc.get_referents(value) if type(held) is dict)
    for attributes in (own for held in by_thread for own in list(held.values()) if type(own) is dict):
        yield from ((f".{name}", held) for name, held in list(attributes.items()) if type(name) is str)


def is_generator(value: AnyObject) -> bool:
    """Whether a value is a generator or coroutine, running or not."""
    return plain.is_one_of(type(value), GENERATORS)


def frame_of(value: AnyObject) -> FrameType | None:
    """The frame of a coroutine or generator; None if it has ended."""
    frame: FrameType | None = getattr(value, f"{_PREFIXES[type(value)]}_frame")
    return frame


def frames_of(value: AnyObject) -> Iterator[FrameType]:
    """The frames of a generator that does not run, and of those that it waits for."""
    for _ in range(AWAITED_AT_MOST):
        if not is_generator(value):
            return
        frame = frame_of(value)
        if frame is None or getattr(value, f"{_PREFIXES[type(value)]}_running"):
            return
        yield frame
        value = getattr(value, _AWAITED[type(value)])


def variables_in(values: list[Any]) -> list[list[tuple[str, Any]]]:
    """The variables of all frames of each of these generators."""
    frames = [list(frames_of(value)) for value in values]
    if not any(frames):
        return [[] for _ in values]
    variables = iter(variables_of(list(chain.from_iterable(frames))))
    return [[item for _ in own for item in next(variables).items()] for own in frames]
