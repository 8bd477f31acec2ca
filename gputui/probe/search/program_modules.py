"""Searches the globals and class attributes of modules that no stack leads to now: the program's own and installed.

An installed module is searched if one of its functions was seen on a stack: then it has to do with this program.
"""

from __future__ import annotations

import sys
import sysconfig
from types import ModuleType
from typing import Any

from gputui.probe.objects import plain
from gputui.probe.objects.stacks import Namespace, global_variables, is_library, is_of_package
from gputui.probe.objects.torch_types import AnyObject
from gputui.probe.pace.meter import Meter
from gputui.probe.search.search import VariableSearch
from gputui.probe.search.variables import NamedValue

MODULES_AT_ONCE = 32
"""How many modules a look searches beside those in which earlier looks found tensors."""
OTHERS_EVERY = 4
"""One in so many looks searches any of the others, and so does the look after another module was imported."""
VARIABLES_PER_STEP = 16

_STANDARD_LIBRARY = sysconfig.get_path("stdlib")


class ProgramModules:
    """Knows modules by name only, so none is kept alive."""

    def __init__(self) -> None:
        self._own: list[str] = []
        """The names of the program's own modules."""
        self._packages: set[str] = set()
        """The names of installed modules that were seen on a stack."""
        self._with_tensors: set[str] = set()
        self._imported = 0
        self._start = 0
        self._looks = 0

    def search(self, search: VariableSearch, running: list[dict[str, Any]], meter: Meter) -> list[Namespace]:
        """Search the modules in which earlier looks found something, and the next few of the others.

        Returns the namespaces of those in which something was found. `running`: the globals of the functions that run.
        """
        self._note(running)
        others = self._own + sorted(self._packages)
        names = [*self._with_tensors]
        if self._looks % OTHERS_EVERY == 0:
            start = self._start if self._start < len(others) else 0
            self._start = start + MODULES_AT_ONCE
            names += others[start : self._start]
        self._looks += 1
        with_tensors = []
        for name in dict.fromkeys(names):
            variables = _variables(sys.modules.get(name))
            if not meter.spend(1 + len(variables) // VARIABLES_PER_STEP):
                break
            before = search.finds
            namespace = Namespace("", is_function=False, variables=global_variables(variables))
            search.search([namespace], meter)
            if search.finds > before or search.has_remembered(namespace.variables.values()):
                self._with_tensors.add(name)
                with_tensors.append(namespace)
        return with_tensors

    def have(self, named: NamedValue) -> bool:
        """Whether one of them has this value by this name: as a global or as an attribute of a class."""
        variable, _, attribute = named.name.partition(".")
        for name in (*self._own, *self._packages):
            value = dict.get(_variables(sys.modules.get(name)), variable)
            if attribute:
                value = plain.namespace_of(value).get(attribute) if issubclass(type(value), type) else None
            if value is named.value:
                return True
        return False

    def _note(self, running: list[dict[str, Any]]) -> None:
        """Update the names of the program's own modules and of installed ones."""
        if len(sys.modules) != self._imported:
            self._imported, self._looks = len(sys.modules), 0
            self._own = [
                name for name, module in list(sys.modules.items()) if name != "__main__" and _is_of_the_program(module)
            ]
        self._packages.update(filter(None, map(_installed, running)))


def _installed(module: dict[str, Any]) -> str:
    """The name of an installed module that is none of PyTorch's, by its globals; "" for any other."""
    return plain.text_in(module, "__name__") if is_of_package(module) and not is_library(module) else ""


def _is_of_the_program(module: AnyObject) -> bool:
    variables = _variables(module)
    file = plain.text_in(variables, "__file__")
    return (
        bool(file)
        and not file.startswith(_STANDARD_LIBRARY)
        and not is_of_package(variables)
        and not is_library(variables)
    )


def _variables(module: AnyObject) -> dict[str, Any]:
    """The globals of a module; {} for other objects, which a program may put into `sys.modules`."""
    return plain.module_variables(module) if issubclass(type(module), ModuleType) else {}
