"""What objects of C hold that show no attributes: results of `lru_cache`, iterators, mapping proxies, thread-locals.

The garbage collector tells what they refer to; none of the program's code is run.
"""

from __future__ import annotations

import functools
import gc
import itertools
import sys
import threading
from collections.abc import Iterable
from contextvars import ContextVar
from types import CodeType, FunctionType, MappingProxyType
from typing import Any

from gputui.probe.objects import plain
from gputui.probe.objects.torch_types import AnyObject

LRU_CACHE = type(functools.lru_cache(maxsize=None)(len))
_ITERATORS = (
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


def types() -> tuple[type, ...]:
    """The types of these objects."""
    asyncio = sys.modules.get("_asyncio")
    of_asyncio = [vars(asyncio)[name] for name in _OF_ASYNCIO if name in vars(asyncio)] if asyncio else []
    return (LRU_CACHE, MappingProxyType, ContextVar, threading.local, *_ITERATORS, *of_asyncio)


def contents(value: AnyObject) -> list[tuple[str, Any]]:
    """What such an object holds, each with its part of the name."""
    cls = type(value)
    if cls is LRU_CACHE:
        return _results(value)
    if cls is ContextVar:
        return [("", ContextVar.get(value, None))]
    if issubclass(cls, threading.local):
        return list(_of_threads(value))
    return [("", held) for held in gc.get_referents(value)]


def cache_of(function: AnyObject) -> dict[Any, Any]:
    """The results of a function with `lru_cache` by its arguments; links to them if it has a `maxsize`."""
    dicts = (held for held in gc.get_referents(function) if type(held) is dict)
    return next((held for held in dicts if "__wrapped__" not in held), {})


def code_of(function: AnyObject) -> CodeType | None:
    """The code of the function that a cache is of."""
    functions = (held for held in gc.get_referents(function) if type(held) is FunctionType)
    return next((held.__code__ for held in functions), None)


def limit_of(function: AnyObject) -> int:
    """The `maxsize` of a cache; 0 without one."""
    return int(LRU_CACHE.cache_info(function).maxsize or 0)


def has_links(cache: dict[Any, Any]) -> bool:
    """Whether these are links to results, which cannot be followed one by one."""
    return any(plain.type_name(link) == "_lru_list_elem" for link in itertools.islice(dict.values(cache), 1))


def _results(function: AnyObject) -> list[tuple[str, Any]]:
    """The results that a cache with a `maxsize` keeps, the oldest first."""
    keys = set(map(id, dict.keys(cache_of(function))))
    held = [value for value in gc.get_referents(function) if id(value) not in keys]
    results = [value for value in held if not plain.is_one_of(type(value), (dict, FunctionType, type))]
    return [(f"[{number}]", result) for number, result in enumerate(results)]


def _of_threads(value: AnyObject) -> Iterable[tuple[str, Any]]:
    """The attributes of a thread-local object, those of all threads: they are in a dictionary for each thread."""
    by_thread = (held for held in gc.get_referents(value) if type(held) is dict)
    for attributes in (own for held in by_thread for own in list(held.values()) if type(own) is dict):
        yield from ((f".{name}", held) for name, held in list(attributes.items()) if type(name) is str)
