"""The lines of the program that assign a variable with a graph, and those that make certain calls.

The stop collects which functions to read; their bytecode is read in the probe's thread, after the look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, compress, islice
from operator import itemgetter
from types import CodeType
from typing import Any, NamedTuple

from gputui.probe.objects import plain
from gputui.probe.objects.plain import HEAP_TYPE
from gputui.probe.objects.stacks import Namespace
from gputui.probe.pace.meter import Meter
from gputui.probe.search.growing_lines import (
    EITHER,
    STORED_ATTRIBUTE,
    calls,
    line_of_growth,
    lines_of_source_that_assign,
    lines_that_assign,
    lines_that_assign_global,
    lines_that_call,
    mentioning,
    mentions,
    variable_of,
)
from gputui.probe.search.keepers import Keepers
from gputui.probe.search.variables import NamedValue
from gputui.protocol.owners import Owner, owner_of

CALLS = {"empties": "empty_cache", "creates_graph": "create_graph"}
"""Fields of `gputui.model.attached.tensors.Inventory`, with the function or the keyword argument of the calls."""
VARIABLES_AT_MOST = 64
GLOBALS_AT_MOST = 8
ATTRIBUTES_AT_MOST = 32
_ENDS_OF_KEYS = ("']", '"]')
PLACES_AT_MOST = 2
"""How many of the functions that assign one attribute are named."""
CODES_AT_MOST = 16
CALLERS_AT_MOST = 16
ELEMENTS_PER_STEP = 16
"""How many variables of a module count as one step of the meter where they are only passed over."""


class Local(NamedTuple):
    """An owner that is a local variable, its name and its function."""

    owner: Owner
    name: str
    code: CodeType

    def lines(self, files: Mapping[str, str]) -> str:
        """Where it is assigned: "train.py:31, 40 in step"; "" if that is not known."""
        return lines_that_assign(self.code, self.name, files)


class Global(NamedTuple):
    """An owner that is a global variable, and the code of its module that mentions it.

    `cells`, in a notebook: the name and the source of each cell, the newest first.
    """

    owner: Owner
    codes: list[CodeType]
    cells: list[tuple[str, str]]

    def lines(self, files: Mapping[str, str]) -> str:
        """Where it is assigned: "train.py:12, 98" or "cell 7:3"; "" if that is not known."""
        in_cells = ((cell, lines_of_source_that_assign(source, self.owner[0])) for cell, source in self.cells)
        newest = next((f"{cell}:{lines}" for cell, lines in in_cells if lines), "")
        return newest or lines_that_assign_global(self.codes, self.owner[0], files)


class Attribute(NamedTuple):
    """An owner that is an attribute of an object, its name, and the code of the program that mentions it."""

    owner: Owner
    name: str
    codes: list[CodeType]

    def lines(self, files: Mapping[str, str]) -> str:
        """Where it is assigned, outside `__init__` if anywhere: "train.py:31 in step"; "" if that is not known."""
        found = {lines_that_assign(code, self.name, files, STORED_ATTRIBUTE): code for code in self.codes}
        places = [place for place, code in found.items() if place and code.co_name != "__init__"]
        return " and ".join(places[:PLACES_AT_MOST] or filter(None, found))


class Element(NamedTuple):
    """An owner in a dictionary, such as a running sum, the dictionary's variable, and the code that mentions this."""

    owner: Owner
    name: str
    codes: list[CodeType]

    def lines(self, files: Mapping[str, str]) -> str:
        """Where the dictionary is written: "train.py:31 in step"; "" if that is not known."""
        return line_of_growth(self.codes, self.name, EITHER, files)


class Wanted(NamedTuple):
    """The code to read after the look: for variables that keep a graph, and for each field of `CALLS`.

    `callers` is None in looks that do not search for such calls.
    """

    variables: list[Local | Global | Attribute | Element]
    callers: dict[str, list[CodeType]] | None
    files: Mapping[str, str]


def wanted(
    tensors: Iterable[NamedValue],
    namespaces: list[Namespace],
    has_graph: Callable[[Any], bool],
    keepers: Keepers,
    meter: Meter,
    *,
    are_callers_due: bool,
) -> Wanted:
    """Collect, in the stop, what to read; `meter` bounds the search in modules with many variables."""
    plain_names = [tensor for tensor in tensors if not tensor.keeper and "[" not in tensor.name]
    with_graph = [tensor for tensor in plain_names if tensor.name.isidentifier() and has_graph(tensor.value)]
    attributes = [tensor for tensor in plain_names if "." in tensor.name][:ATTRIBUTES_AT_MOST]
    codes = {space.where: space.code for space in namespaces if space.is_function and space.code is not None}
    found: list[Local | Global | Attribute | Element] = []
    found += [Local(tensor.owner, tensor.name, codes[tensor.where]) for tensor in with_graph if tensor.where in codes]
    del found[VARIABLES_AT_MOST:]
    names = {tensor.name for tensor in with_graph if not tensor.where}
    in_modules = [tensor for tensor in plain_names if not tensor.where and tensor.name in names][:GLOBALS_AT_MOST]
    cells = keepers.sources() if in_modules else []
    found += [_global(tensor, namespaces, cells, meter) for tensor in in_modules]
    elements = [tensor for tensor in tensors if not tensor.keeper and tensor.name[-2:] in _ENDS_OF_KEYS]
    known: dict[str, list[CodeType]] = {}
    for kind, some in ((Element, elements[:ATTRIBUTES_AT_MOST]), (Attribute, attributes)):
        for tensor in some:
            name = variable_of(tensor.name)
            if not has_graph(tensor.value):
                continue
            if name not in known:  # many attributes and elements share one
                known[name] = list(islice(_mentioning(namespaces, name, meter, mentions), CODES_AT_MOST))
            found.append(kind(tensor.owner, name, known[name]))
    callers: dict[str, list[CodeType]] = {}
    for field, word in CALLS.items() if are_callers_due else ():
        callers[field] = list(islice(_mentioning(namespaces, word, meter, calls), CALLERS_AT_MOST))
    return Wanted(found, callers or None, keepers.cells)


def _global(tensor: NamedValue, namespaces: list[Namespace], cells: list[tuple[str, str]], meter: Meter) -> Global:
    """With the code of its module, if it runs, and of the module's functions; cells assign variables of `__main__`."""
    owned = (space.variables for space in namespaces if not space.is_function)
    module = next((variables for variables in owned if variables.get(tensor.name) is tensor.value), {})
    own_cells = cells if plain.text_in(module, "__name__") == "__main__" else []
    if not meter.spend(len(module) // ELEMENTS_PER_STEP):
        return Global(tensor.owner, [], own_cells)
    path = plain.text_in(module, "__file__")
    running = (space.code for space in namespaces if not space.is_function and space.code is not None)
    codes = chain(running, mentioning(module, tensor.name))
    of_module = islice((code for code in codes if plain.text(code.co_filename) == path), CODES_AT_MOST)
    return Global(tensor.owner, list(of_module), own_cells)


def _mentioning(
    namespaces: list[Namespace], word: str, meter: Meter, is_in: Callable[[CodeType, str], bool]
) -> Iterator[CodeType]:
    """The functions in which `is_in` finds the word, some twice; modules too large for the time left are left out."""
    for space in namespaces:
        if len(space.variables) > meter.affordable_steps():
            continue
        if space.code is not None and is_in(space.code, word):
            yield space.code
        if not space.is_function:
            yield from mentioning(space.variables, word, is_in)
            name = plain.text_in(space.variables, "__name__")
            for cls in list(space.variables.values()):
                if issubclass(type(cls), type) and plain.flags_of(cls) & HEAP_TYPE and plain.module_name(cls) == name:
                    yield from mentioning(plain.namespace_of(cls), word, is_in)


def name_assignments(storages: list[dict[str, Any]], wanted: Wanted) -> None:
    """Let owners say where a variable is assigned, instead of the line at which its function is now.

    Variables of one name in several modules have one owner, which gets no line unless it is that of all.
    """
    found: dict[Owner, set[str]] = {}
    for variable in wanted.variables:
        found.setdefault(variable.owner, set()).add(variable.lines(wanted.files))
    placed = {owner: owner_of(owner[0], *lines) for owner, lines in found.items() if len(lines) == 1 and any(lines)}
    for field in ("owner", "kept_by") if placed else ():
        for storage in compress(storages, map(placed.__contains__, map(itemgetter(field), storages))):
            storage[field] = placed[storage[field]]


def lines_of_calls(wanted: Wanted) -> dict[str, list[str]]:
    """Where the calls of each field are: "train.py:31 in step"; {} if this look has not searched for calls."""
    found = {}
    for field, codes in (wanted.callers or {}).items():
        callers = (lines_that_call(code, CALLS[field], wanted.files) for code in codes)
        found[field] = list(dict.fromkeys(chain.from_iterable(callers)))[:CALLERS_AT_MOST]
    return found
