"""What keeps tensors alive that no variable of the program holds: exceptions, and the outputs of notebook cells.

An exception keeps its traceback, and so every local variable of every function it came through. Python and IPython keep
the last one. IPython also keeps what each cell has displayed, in more places than `Out`.
"""

from __future__ import annotations

import builtins
import gc
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, compress, islice, repeat
from operator import is_
from types import FrameType, ModuleType, TracebackType
from typing import Any, NamedTuple

from gputui.probe.guards.originals import get_ident
from gputui.probe.guards.thread_numbers import is_main_thread
from gputui.probe.objects import kinds, plain, stacks
from gputui.probe.objects.attributes import AttributeReader
from gputui.probe.objects.frame_variables import CO_OPTIMIZED, variables, variables_of
from gputui.probe.objects.handles import Handle, handle_of
from gputui.probe.objects.stacks import Namespace
from gputui.probe.objects.torch_types import AnyObject
from gputui.probe.pace.meter import Meter
from gputui.probe.pace.turns import Turns
from gputui.probe.search.growing_lines import SOURCES_AT_MOST
from gputui.probe.search.variables import NamedValue
from gputui.protocol.owners import HANDLED, HELD, LAST, LOST, OF_CELL, InException

# The values of `gputui.model.attached.owners.Keeper`.
EXCEPTION, LAST_EXCEPTION, NOTEBOOK_EXCEPTION = "exception", "last_exception", "notebook_exception"
LOST_EXCEPTION, NOTEBOOK_OUTPUT, INTERPRETER_OUTPUT = "lost_exception", "notebook_output", "interpreter_output"
OPTIMIZER, CYCLE, GRADIENT_GRAPH = "optimizer", "cycle", "gradient_graph"
EXCEPTIONS = frozenset({EXCEPTION, LAST_EXCEPTION, NOTEBOOK_EXCEPTION, LOST_EXCEPTION})

FRAMES_AT_MOST = 256
"""Of an exception: an endless recursion ends with a thousand frames, of which the first and the last are read."""
EXCEPTIONS_AT_MOST = 64
LONGEST = 1000
"""A container of more elements is not searched for the exception that keeps it."""
_CONTAINERS = (*kinds.SEQUENCES, dict)
OUTPUTS_AT_MOST = 2000
"""IPython keeps the last 1,000 outputs, unless its `cache_size` says otherwise."""

COPY = "IPython's own copy"
_OUTPUT = re.compile(r"_{1,3}|_\d+|_oh|Out")
"""The variables in which IPython keeps outputs."""
_LAST_OUTPUTS = ("_", "__", "___")

_traceback_of = BaseException.__dict__["__traceback__"].__get__
_cause_of = BaseException.__dict__["__cause__"].__get__
_context_of = BaseException.__dict__["__context__"].__get__
_GROUPS = tuple(
    cls
    for cls in BaseException.__subclasses__()
    if plain.class_name(cls) == "BaseExceptionGroup" and not plain.flags_of(cls) & plain.HEAP_TYPE
)
"""The base of all groups of exceptions; none before Python 3.11."""
_members_of: AnyObject = _GROUPS[0].__dict__["exceptions"].__get__ if _GROUPS else tuple


class _Kept(NamedTuple):
    """An exception, or a traceback alone; `where` is what its variables have in common."""

    value: AnyObject
    where: InException
    keeper: str


class Keepers:
    """Belongs to one inventory."""

    def __init__(self, attributes: AttributeReader) -> None:
        self._attributes = attributes
        shells = sys.modules.get("IPython.core.interactiveshell")
        self._shell = _instance_of_shell(shells)
        self._variables = _as_dict(self._of_shell("_user_ns") or self._of_shell("user_ns"))  # since IPython 9, before
        self._hidden = _as_dict(self._of_shell("user_ns_hidden"))
        cells = _as_dict(self._own(self._of_shell("compile"), "_filename_map"))
        self.cells: Mapping[str, str] = {
            name: f"cell {number}"
            for name, number in list(dict.items(cells))
            if type(name) is str and type(number) is int
        }
        """The names of a notebook's cells, by the names of their files."""
        self.exceptions: dict[tuple[str, str], list[Handle]] = {}
        """The exceptions that were read, by (exception, holder): the two fields by which owners name an exception."""

    def variables(self, frames: list[stacks.RunningFrame]) -> list[Namespace]:
        """The variables of the program itself, without those in which IPython keeps outputs."""
        spaces = stacks.namespaces(self.cells, frames)
        if self._shell is None or not spaces:
            return spaces
        own = {name: value for name, value in spaces[0].variables.items() if not self._is_output(name, value)}
        return [spaces[0]._replace(variables=own), *spaces[1:]]

    def sources(self) -> list[tuple[str, str]]:
        """The newest cells of a notebook, the last first, each with the name of the cell; [] outside notebooks."""
        inputs = dict.get(self._variables, "_ih")
        if type(inputs) is not list:
            return []
        numbered = list(enumerate(inputs))[: -SOURCES_AT_MOST - 1 : -1]
        return [(f"cell {number}", source) for number, source in numbered if type(source) is str]

    def holders(self) -> list[AnyObject]:
        """IPython's objects that keep outputs or exceptions, which would otherwise be found by names of its own."""
        names = ("user_ns_hidden", "displayhook", "history_manager", "last_execution_result", "InteractiveTB")
        holders = [self._shell, dict.get(self._variables, "_oh"), *map(self._of_shell, names)]
        return [holder for holder in holders if holder is not None]

    def values(
        self,
        in_variables: Mapping[int, list[NamedValue]],
        among_objects: Mapping[int, list[Any]],
        meter: Meter,
        turns: Turns,
        *,
        are_all: bool,
    ) -> list[NamedValue]:
        """What they keep, by name: outputs, then variables of functions that ended with an exception.

        `in_variables` is what variables lead to, `among_objects` what was found among Python's objects, each by kind.
        `are_all` says whether all variables were searched: otherwise one of them may lead to what is among the objects,
        which is left out.
        """
        held = in_variables[kinds.EXCEPTION]
        named = set(map(id, _with_causes([exception.value for exception in held])))
        young = plain.by_id(among_objects[kinds.EXCEPTION])
        others = [value for ident, value in young.items() if ident not in named] if are_all else []
        kept = [*self._last_exceptions(), *self._other_exceptions(others, meter)]
        seen: set[int] = set()
        values = [*self._outputs(), *self._locals(kept, meter, seen)]
        for some in turns.in_turn("exceptions", held, meter):
            values += self._locals(map(_in_variable, some), meter, seen)
        return values

    def _outputs(self) -> Iterator[NamedValue]:
        if self._shell is None:
            if "_" in vars(builtins):
                yield NamedValue(vars(builtins)["_"], "_", "", INTERPRETER_OUTPUT)
            return
        by_number = _as_dict(dict.get(self._variables, "_oh"))
        for number, value in islice(reversed(list(dict.items(by_number))), OUTPUTS_AT_MOST):
            yield NamedValue(value, f"Out[{plain.key_text(number)}]", "", NOTEBOOK_OUTPUT)
        display = self._of_shell("displayhook")
        copies = {name: self._own(display, name) for name in _LAST_OUTPUTS}
        for where, holders in (("", self._variables), (COPY, self._hidden), (COPY, copies)):
            for name, value in list(dict.items(holders)):
                if type(name) is str and (where or self._is_output(name, value)) and _OUTPUT.fullmatch(name):
                    yield NamedValue(value, name, where, NOTEBOOK_OUTPUT)

    def _is_output(self, name: AnyObject, value: AnyObject) -> bool:
        """Whether a variable is IPython's, and the program has not put a value of its own there."""
        if type(name) is not str or not _OUTPUT.fullmatch(name):
            return False
        return dict.get(self._hidden, name) is value or value is dict.get(self._variables, "_oh")

    def _last_exceptions(self) -> Iterator[_Kept]:
        """What Python and IPython keep of the last exception, and what threads are handling now."""
        keeper = LAST_EXCEPTION if self._shell is None else NOTEBOOK_EXCEPTION
        result = self._of_shell("last_execution_result")
        values = [vars(sys).get(name) for name in ("last_exc", "last_value", "last_traceback")]
        values += [self._own(self._of_shell("InteractiveTB"), "tb")]
        values += [self._own(result, name) for name in ("error_in_exec", "error_before_exec")]
        for value in values:
            if issubclass(type(value), (BaseException, TracebackType)):
                yield _Kept(value, self._where(value, LAST), keeper)
        current = getattr(sys, "_current_exceptions", dict)  # not in Python 3.8 and 3.9
        for thread, handled in current().items():
            value = handled[1] if type(handled) is tuple else handled  # a tuple before Python 3.12
            if value is not None and not _is_probe_thread(thread):
                yield _Kept(value, InException("", HANDLED), EXCEPTION)

    def _other_exceptions(self, exceptions: list[BaseException], meter: Meter) -> Iterator[_Kept]:
        """Exceptions to which no variable has led: lost ones, and before these others, to which no search has come."""
        some = exceptions[-EXCEPTIONS_AT_MOST:]
        running = set(map(id, chain.from_iterable(stacks.stacks_by_thread().values()))) if some else set()
        lost = plain.by_id(_with_causes([value for value in some if self._is_lost(value, running, meter)]))
        causes = plain.by_id(_with_causes(_causes_of(some)))
        for value in sorted(some, key=lambda exception: id(exception) in causes):  # its name is that of the last one
            if id(value) not in lost:
                yield _Kept(value, self._where(value, HELD, f"{plain.type_name(value)}()"), EXCEPTION)
        for value in lost.values():
            yield _Kept(value, self._where(value, LOST), LOST_EXCEPTION)

    def _is_lost(self, exception: BaseException, running: set[int], meter: Meter) -> bool:
        """Whether it is in a cycle: its causes, attributes, or variables of functions that have ended refer to it.

        These are the functions that it came through, and their callers, to which their frames refer.
        """
        frames = _ended_frames(exception, running)
        if not meter.spend(len(frames)):
            return False
        own = [self._attributes.read(exception), *variables_of(frames)]
        values = _short(chain.from_iterable(map(dict.values, own)))
        inside = gc.get_referents(*values)
        deeper = gc.get_referents(*_short(value for value in inside if type(value) is dict))
        return any(map(is_, [*_with_causes(_causes_of([exception])), *values, *inside, *deeper], repeat(exception)))

    def _where(self, value: AnyObject, exception: str, holder: str = "") -> InException:
        """Which exception it is: that of a cell, in a notebook."""
        files = (plain.text(frame.f_code.co_filename) for frame, _ in _frames(value))
        cell = next((self.cells[name] for name in files if name in self.cells), None)
        return InException("", OF_CELL, cell) if cell else InException("", exception, holder)

    def _locals(self, kept: Iterable[_Kept], meter: Meter, seen: set[int]) -> Iterator[NamedValue]:
        """The variables of the functions that these came through; `seen` are the ids of the frames that were read."""
        for value, of_exception, keeper in kept:
            causes = _with_causes([value]) if _is_exception(value) else []
            self.exceptions.setdefault(of_exception[1:], []).extend(map(handle_of, causes))
            for exception in causes:
                for name, attribute in self._attributes.read(exception).items():
                    yield NamedValue(attribute, name, of_exception, keeper)
            for frame, line in sorted(_frames(value), key=lambda entry: stacks.is_of_library(entry[0])):
                if not meter.spend():
                    return
                if id(frame) in seen or not frame.f_code.co_flags & CO_OPTIMIZED or stacks.is_of_notebook(frame):
                    continue
                seen.add(id(frame))
                where = of_exception._replace(place=stacks.place(frame.f_code, line, self.cells))
                for name, local in variables(frame).items():
                    yield NamedValue(local, name, where, keeper)

    def _of_shell(self, name: str) -> AnyObject:
        return self._own(self._shell, name)

    def _own(self, owner: AnyObject, name: str) -> AnyObject:
        """An attribute of an IPython object, or None; traits are kept in a dictionary of their own."""
        own = _as_dict(None if owner is None else self._attributes.own_dict(owner))
        return own[name] if name in own else dict.get(_as_dict(own.get("_trait_values")), name)


def _instance_of_shell(shells: AnyObject) -> AnyObject:
    """IPython's shell, from the module that defines it; None outside notebooks."""
    variables = plain.module_variables(shells) if issubclass(type(shells), ModuleType) else {}
    cls = variables.get("InteractiveShell")
    return plain.namespace_of(cls).get("_instance") if issubclass(type(cls), type) else None


def _in_variable(exception: NamedValue) -> _Kept:
    return _Kept(exception.value, InException("", HELD, exception.name), EXCEPTION)


def _causes_of(exceptions: list[AnyObject]) -> list[AnyObject]:
    """The exceptions that these were raised from, or while these were handled, and the members of groups."""
    found = [*map(_cause_of, exceptions), *map(_context_of, exceptions)]
    groups = compress(exceptions, map(issubclass, map(type, exceptions), repeat(_GROUPS)))
    found += chain.from_iterable(map(_members_of, groups))
    return [value for value in plain.by_id(found).values() if value is not None]


def _with_causes(exceptions: list[AnyObject]) -> list[AnyObject]:
    """These exceptions, then their causes, and the causes of these in turn: as many levels as are read."""
    found: dict[int, AnyObject] = {}
    for _ in range(EXCEPTIONS_AT_MOST):
        exceptions = [value for value in exceptions if id(value) not in found]
        if not exceptions:
            break
        found.update(plain.by_id(exceptions))
        exceptions = _causes_of(exceptions)
    return list(found.values())


def _short(values: Iterable[AnyObject]) -> list[AnyObject]:
    """Those of these values that are no long containers: what they refer to can be listed at once."""
    bases = ((value, next((base for base in _CONTAINERS if issubclass(type(value), base)), None)) for value in values)
    return [value for value, base in bases if base is None or base.__len__(value) <= LONGEST]


def _frames(value: AnyObject) -> list[tuple[FrameType, int]]:
    """The frames of an exception and of those it was raised from, each with its line, the outermost first."""
    exceptions = _with_causes([value])[:EXCEPTIONS_AT_MOST] if _is_exception(value) else []
    tracebacks = [_traceback_of(exception) for exception in exceptions] or [value]
    frames = list(chain.from_iterable(map(_of_traceback, tracebacks)))
    half = FRAMES_AT_MOST // 2
    return frames if len(frames) <= FRAMES_AT_MOST else frames[:half] + frames[-half:]


def _ended_frames(exception: BaseException, running: set[int]) -> list[FrameType]:
    """The frames that an exception came through, and those that called them, without those with these ids."""
    found: dict[int, FrameType] = {}
    for inner, _ in _frames(exception):
        frame: FrameType | None = inner
        while frame is not None and not (id(frame) in running or id(frame) in found):
            found[id(frame)] = frame
            frame = frame.f_back
    return list(found.values())


def _of_traceback(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


def _is_probe_thread(ident: int) -> bool:
    """Whether a thread is the probe's own: a look is taken there or in the main thread."""
    return ident == get_ident() and not is_main_thread()


def _is_exception(value: AnyObject) -> bool:
    return issubclass(type(value), BaseException)  # `isinstance` would run the code of proxies


def _as_dict(value: AnyObject) -> dict[Any, Any]:
    return value if issubclass(type(value), dict) else {}
