"""What functions hold: the variables of enclosing functions, default arguments, attributes, a method's object."""

from __future__ import annotations

import functools
import gc
import types
from collections.abc import Iterator
from typing import Any

from gputui.probe.objects import plain
from gputui.probe.objects.frame_variables import is_filled
from gputui.probe.objects.kinds import TypeClassifier
from gputui.probe.objects.stacks import is_library, is_of_package
from gputui.probe.objects.torch_types import AnyObject

PARTIAL = vars(functools.partial)


class FunctionFilter:
    """Says which functions in variables are worth a search; those of installed modules only if they have a closure."""

    def __init__(self, classifier: TypeClassifier) -> None:
        self._classifier = classifier
        self._are_installed: dict[int, bool] = {}
        """Whether a module was installed, by the id of its globals."""

    def holds_something(self, function: types.FunctionType) -> bool:
        """Whether a function has a closure, or is the program's own and keeps values of interest."""
        if function.__closure__:
            return True
        module = function.__globals__
        if id(module) not in self._are_installed:
            self._are_installed[id(module)] = is_of_package(module) or is_library(module)
        if self._are_installed[id(module)]:
            return False
        values = [value for _, value in (*_default_arguments(function), *_attributes(function))]
        return bool(values) and any(self._classifier.kinds_of(values))


def closure_of(function: AnyObject) -> list[tuple[str, Any]]:
    """The values that a function carries: variables of enclosing functions, `self`, the arguments of a partial."""
    if type(function) is types.MethodType:
        return [("self", function.__self__), *closure_of(function.__func__)]
    if issubclass(type(function), functools.partial):
        called, arguments, keywords = (PARTIAL[key].__get__(function) for key in ("func", "args", "keywords"))
        positional = [(f"[{number}]", argument) for number, argument in enumerate(arguments)]
        by_name = [(plain.name_of(name) or "", value) for name, value in keywords.items()]
        return [*closure_of(called), *positional, *by_name]
    if type(function) is not types.FunctionType:
        return []
    return [*_filled_cells(function), *_default_arguments(function), *_attributes(function)]


def _default_arguments(function: types.FunctionType) -> list[tuple[str, Any]]:
    """The default values of a function's arguments, by name."""
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    return [*zip(names, defaults), *(function.__kwdefaults__ or {}).items()]


def _filled_cells(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        if is_filled(cell):
            yield name, cell.cell_contents


def _attributes(function: types.FunctionType) -> list[tuple[str, Any]]:
    """The attributes that the program has given a function; asking for its `__dict__` would make one."""
    others = {id(function.__globals__), id(function.__kwdefaults__), id(getattr(function, "__builtins__", None))}
    own = [held for held in gc.get_referents(function) if type(held) is dict and id(held) not in others]
    return [(f".{name}", held) for attributes in own for name, held in list(attributes.items()) if type(name) is str]
