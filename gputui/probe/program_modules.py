"""The program's own modules that are not on a stack now: their globals and class attributes keep tensors, too."""

from __future__ import annotations

import sys
import sysconfig
from functools import partial
from itertools import chain
from types import ModuleType
from typing import Any

from gputui.probe import plain
from gputui.probe.meter import Meter
from gputui.probe.rests import SearchMemory
from gputui.probe.search import VariableSearch
from gputui.probe.stacks import Namespace, Running, global_variables, is_library, is_of_package
from gputui.probe.torch_types import AnyObject
from gputui.probe.variables import first_variable

MODULES_AT_ONCE = 32
"""How many modules a look searches beside those in which earlier looks found tensors."""
OTHERS_EVERY = 4
"""How often a look searches any of the others, but also right after another module was imported."""
VARIABLES_PER_STEP = 16

_STANDARD_LIBRARY = sysconfig.get_path("stdlib")


class ProgramModules:
    """Knows modules by name only, so none is kept alive."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._with_tensors: set[str] = set()
        self._imported = 0
        self._start = 0
        self._looks = 0

    def search(self, search: VariableSearch, meter: Meter) -> list[Namespace]:
        """Search the modules in which tensors were found before, and the next few of the others; returns the former."""
        if len(sys.modules) != self._imported:
            self._imported, self._looks = len(sys.modules), 0
            self._names = [
                name for name, module in list(sys.modules.items()) if name != "__main__" and _is_of_the_program(module)
            ]
        names = [*self._with_tensors]
        if self._looks % OTHERS_EVERY == 0:
            start = self._start if self._start < len(self._names) else 0
            self._start = start + MODULES_AT_ONCE
            names += self._names[start : self._start]
        self._looks += 1
        with_tensors = []
        for name in dict.fromkeys(names):
            variables = _variables(sys.modules.get(name))
            if not meter.spend(1 + len(variables) // VARIABLES_PER_STEP):
                break
            before = search.finds
            namespace = Namespace("", is_function=False, variables=global_variables(variables))
            search.search([namespace], meter)
            if search.finds > before or search.has_passed_over(namespace.variables.values()):
                self._with_tensors.add(name)
                with_tensors.append(namespace)
        return with_tensors


def let_packages_rest(search: VariableSearch, memory: SearchMemory, frames: list[Running], meter: Meter) -> None:
    """Note which installed modules of these frames have led to nothing, after they were searched."""
    found = chain(search.modules, search.optimizers, search.tensors, search.exceptions, search.long.holders)
    leading = {first_variable(named.name) for named in found if not named.where}
    for module in {id(frame.f_globals): frame.f_globals for frame, _ in frames}.values():
        if meter.is_over or search.is_at_rest(module) or not is_of_package(module) or not plain.has_plain_names(module):
            continue
        if not any(map(partial(dict.__contains__, module), leading)):
            memory.let_rest(module, dict.__len__(module))


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
