"""The lines of the program behind what a look has found: who assigns a variable with a graph, who empties the cache.

What to read is collected in the stop; the bytecode is read in the probe's thread, after the look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from types import CodeType
from typing import Any, NamedTuple

from gputui.probe import plain
from gputui.probe.growing_lines import lines_that_assign, lines_that_call, mentioning
from gputui.probe.kinds import HEAP_TYPE
from gputui.probe.meter import Meter
from gputui.probe.stacks import Namespace
from gputui.probe.variables import NamedValue

EMPTY_CACHE = "empty_cache"
VARIABLES_AT_MOST = 64
CALLERS_AT_MOST = 16


class Wanted(NamedTuple):
    """What to read: for each owner that is a local variable, its name and its function; who calls `empty_cache()`.

    `callers` is None in looks that do not search for them.
    """

    assigned: list[tuple[str, str, CodeType]]
    callers: list[CodeType] | None
    files: Mapping[str, str]


def wanted(
    tensors: Iterable[NamedValue],
    namespaces: list[Namespace],
    has_graph: Callable[[Any], bool],
    files: Mapping[str, str],
    callers_within: Meter | None,
) -> Wanted:
    """To be called in the stop. `files` has names for some files, such as "cell 12".

    `callers_within` bounds the search for callers; None: this look does not search for them.
    """
    codes = {space.where: space.code for space in namespaces if space.is_function and space.code is not None}
    assigned = (
        (tensor.label, tensor.name, codes[tensor.where])
        for tensor in tensors
        if not tensor.keeper and tensor.where in codes and tensor.name.isidentifier() and has_graph(tensor.value)
    )
    callers = None
    if callers_within is not None:
        callers = list(islice(_callers(namespaces, callers_within), CALLERS_AT_MOST))
    return Wanted(list(islice(assigned, VARIABLES_AT_MOST)), callers, files)


def _callers(namespaces: list[Namespace], meter: Meter) -> Iterator[CodeType]:
    """The functions that mention it, some twice; modules too large for the time that is left are passed over."""
    for space in namespaces:
        if len(space.variables) > meter.affordable_steps():
            continue
        if space.code is not None and EMPTY_CACHE in space.code.co_names:
            yield space.code
        if not space.is_function:
            yield from mentioning(space.variables, EMPTY_CACHE)
            name = plain.text_in(space.variables, "__name__")
            for cls in list(space.variables.values()):
                if issubclass(type(cls), type) and plain.flags_of(cls) & HEAP_TYPE and plain.module_name(cls) == name:
                    yield from mentioning(plain.namespace_of(cls), EMPTY_CACHE)


def name_assignments(storages: Iterable[dict[str, Any]], wanted: Wanted) -> None:
    """Have the owners' names say where a variable is assigned, not where its function is now."""
    labels = {}
    for label, name, code in wanted.assigned:
        lines = lines_that_assign(code, name, wanted.files)
        if lines:
            labels[label] = f"{name} ({lines})"
    for storage in storages if labels else ():
        for field in ("owner", "kept_by"):
            storage[field] = labels.get(storage[field], storage[field])


def calls_of_empty_cache(wanted: Wanted) -> list[str] | None:
    """`empties` of `gputui.model.tensors.Inventory`; None if this look has not searched for them."""
    if wanted.callers is None:
        return None
    callers = (lines_that_call(code, EMPTY_CACHE, wanted.files) for code in wanted.callers)
    return list(dict.fromkeys(chain.from_iterable(callers)))[:CALLERS_AT_MOST]
