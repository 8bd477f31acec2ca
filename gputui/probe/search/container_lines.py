"""Where the program's code writes to a container: which functions may add to it, and the name that they use for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

from gputui.probe.objects import plain
from gputui.probe.objects.kinds import is_lasting
from gputui.probe.objects.stacks import Namespace
from gputui.probe.objects.torch_types import AnyObject
from gputui.probe.search.growing_lines import (
    ATTRIBUTE,
    EITHER,
    FUNCTIONS_AT_MOST,
    KNOWN_AT_MOST,
    VARIABLE,
    functions_of,
    lines_that_assign,
    lines_that_assign_global,
    mentioning,
    variable_of,
)
from gputui.probe.search.variables import NamedValue

_named_by_library: dict[tuple[int, str], bool] = {}
"""Whether a library's class, which lasts as long as the process, names an attribute, by the class's id and the name."""


class Container(NamedTuple):
    """A container as the search came to it, with the object that has it as an attribute or element, if any."""

    named: NamedValue
    elements: int
    holder: AnyObject


def loads_of(container: Container) -> tuple[str, ...]:
    """The instructions by which the program reads the container: as a variable, as an attribute, or either."""
    name, holder = container.named.name, container.holder
    if name.endswith("]") or is_in_library(container):
        return EITHER
    is_of_object = holder is not None and not plain.is_one_of(type(holder), (FunctionType, MethodType))
    return ATTRIBUTE if is_of_object or "." in name else VARIABLE


def is_in_library(container: Container) -> bool:
    """Whether the container is inside an object of a library, such as a `queue.Queue`: no line of the program names it.

    An attribute that the library's code does not name was added by the program, as to a module of PyTorch's.
    """
    if not is_of_library(container):
        return False
    cls, variable = type(container.holder), variable_of(container.named.name)
    key = id(cls), variable
    if key not in _named_by_library:
        if len(_named_by_library) >= KNOWN_AT_MOST:
            _named_by_library.clear()
        is_of_c = not plain.flags_of(cls) & plain.HEAP_TYPE
        _named_by_library[key] = is_of_c or bool(functions_of(container.holder, variable))
    return _named_by_library[key]


def is_of_library(container: Container) -> bool:
    """Whether the container is an attribute of an object whose class is a library's."""
    cls, name = type(container.holder), container.named.name
    is_of_object = container.holder is not None and not plain.is_one_of(cls, (FunctionType, MethodType))
    return is_of_object and "." in name and not name.endswith("]") and is_lasting(cls)


def variable_of_program(container: Container) -> str:
    """The last part of the container's name that the program may have written: `batches` of `loader.batches.queue`."""
    name = container.named.name
    return variable_of(name.rpartition(".")[0] if is_in_library(container) else name)


def nearest_functions(container: Container, variable: str) -> Iterable[CodeType]:
    """The functions most likely to add to the container: methods of its holder's class, or the holder itself."""
    is_holders = container.holder is not None and not is_in_library(container)
    return functions_of(container.holder, variable) if is_holders else ()


def in_classes(namespaces: list[Namespace], variable: str, known: dict[str, list[CodeType]]) -> list[CodeType]:
    """The methods of the program's classes that mention the variable; `known` has those of other containers."""
    if variable not in known:
        values = (value for space in namespaces if not space.is_function for value in list(space.variables.values()))
        classes = (cls for cls in values if issubclass(type(cls), type) and plain.flags_of(cls) & plain.HEAP_TYPE)
        found = (mentioning(plain.namespace_of(cls), variable) for cls in classes if not is_lasting(cls))
        known[variable] = [code for codes in found for code in islice(codes, FUNCTIONS_AT_MOST)]
    return known[variable]


def functions_in(module: dict[str, Any] | None, variable: str) -> Iterator[CodeType]:
    """The functions of a module that mention the variable."""
    return islice(mentioning(module, variable), FUNCTIONS_AT_MOST) if module else iter(())


def assigned_at(codes: list[CodeType], variable: str, files: Mapping[str, str]) -> str:
    """Where this code, which runs now, assigns the variable that leads to a container; "" if it does not."""
    lines = (lines_that_assign(code, variable, files) for code in codes)
    return next(filter(None, lines), "") or lines_that_assign_global(codes, variable, files)


def is_body_of(code: CodeType, module: dict[str, Any] | None) -> bool:
    """Whether this is the code of the module itself, outside its functions."""
    return module is not None and code.co_name == "<module>" and code.co_filename == plain.text_in(module, "__file__")
