"""Frames that are on no thread's stack: of coroutines and generators that wait, and those that a debugger shows."""

from __future__ import annotations

import gc
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain, compress, repeat
from operator import not_
from types import CoroutineType, FrameType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from gputui.probe.objects import plain, stacks
from gputui.probe.objects.frame_variables import variables
from gputui.probe.objects.heap import Heap
from gputui.probe.objects.listing import of_classes
from gputui.probe.objects.opaque import AWAITED_AT_MOST, frame_of, frames_of, is_generator
from gputui.probe.objects.stacks import Namespace
from gputui.probe.objects.torch_types import AnyObject

if TYPE_CHECKING:
    from gputui.probe.objects.attributes import AttributeReader
    from gputui.probe.pace.meter import Meter
    from gputui.probe.search.search import VariableSearch

CROWD = 32
"""From so many tasks of one function on, the tasks are taken for elements of a container of the program."""
REST = 8
"""For how many looks tasks are not searched for again where that visits all objects."""
VISIT_SHARE = 0.5
"""The share of a stop's time that such a visit may take."""
READ_AT_MOST = 64
"""How many generators and coroutines a look reads, beside the stacks of tasks."""
KNOWN_AT_MOST = 256
_EXITS = ("__exit__", "__aexit__")
_AWAITABLES = frozenset({"async_generator_asend", "async_generator_athrow", "coroutine_wrapper"})
"""Python's own types, which show only to the garbage collector what they wait for."""
FRAMES_AT_MOST = 64
"""How many of the frames that a debugger shows are read, the innermost."""


class Suspended:
    """Generators and coroutines that wait. Those in which something was found are known, by weak references."""

    def __init__(self) -> None:
        self._known: dict[int, weakref.ref[AnyObject]] = {}
        self._tasks: list[weakref.ref[AnyObject]] = []
        """The tasks that were found last; only from Python 3.14 on."""
        self._uses = self._rest = 0
        """How many references to the classes of tasks there were then, and for how many looks nothing is searched."""

    def search(
        self, search: VariableSearch, among_objects: list[Any], files: Mapping[str, str], meter: Meter
    ) -> list[Namespace]:
        """Search the variables of generators known from earlier looks, found in variables, and among Python's objects.

        Returns the namespaces in which something was found.
        """
        with_finds: list[Namespace] = []
        found = [*self._alive(), *(named.value for named in search.generators), *among_objects]
        for value in list({id(value): value for value in found}.values())[:READ_AT_MOST]:
            if not meter.spend():
                break
            before = search.finds
            spaces = _namespaces(files, value)
            search.search(spaces, meter)
            if search.finds > before:
                with_finds += spaces
                self._remember(value)
        return with_finds

    def stacks_of_tasks(self, meter: Meter) -> tuple[dict[int, Callable[[], list[FrameType]]], set[int]]:
        """A function for each of asyncio's tasks that is not done, by the task's id: it reads the task's stack.

        Also the ids of the tasks in crowds that run one function: a container of the program most likely holds these.
        """
        cls = _class_of_tasks()
        if cls is None:
            return {}, set()
        listed = self._listed(cls, meter) if sys.version_info >= (3, 14) else _in_sets(cls)
        tasks = sorted(compress(listed, map(not_, map(vars(cls)["done"], listed))), key=id)
        coroutines = map(vars(cls)["get_coro"], tasks)
        # Codes are told by their ids: hashing one hashes its constants, which may be objects of the program.
        codes = [id(coroutine.cr_code) if type(coroutine) is CoroutineType else 0 for coroutine in coroutines]
        are_in_crowds = map(CROWD.__le__, map(Counter(codes).__getitem__, codes))
        idents = list(map(id, tasks))
        return dict(zip(idents, map(partial(partial, _stack_of), tasks))), set(compress(idents, are_in_crowds))

    def _listed(self, cls: AnyObject, meter: Meter) -> list[Any]:
        """asyncio's tasks from Python 3.14 on, where only C can list them without code of the program's.

        They are searched for among what refers to their classes, where there are more or fewer such references.
        """
        classes = [cls, *type.__subclasses__(cls)]
        uses, self._rest = sum(map(sys.getrefcount, classes)), self._rest - 1
        if uses != self._uses and self._rest < 0 and Heap.may_visit_all(meter.part(VISIT_SHARE)):
            tasks = of_classes(partial(gc.get_referrers, *classes), set(map(id, classes)))
            self._tasks, self._uses, self._rest = list(map(weakref.ref, tasks)), uses, REST
        return [task for task in map(weakref.ref.__call__, self._tasks) if task is not None]

    def frames(self) -> list[FrameType]:
        """The frames of those in which earlier looks found something."""
        return list(chain.from_iterable(map(frames_of, self._alive())))

    def _alive(self) -> list[AnyObject]:
        values = [(ident, reference()) for ident, reference in self._known.items()]
        self._known = {ident: self._known[ident] for ident, value in values if value is not None}
        return [value for _, value in values if value is not None]

    def _remember(self, value: AnyObject) -> None:
        if len(self._known) < KNOWN_AT_MOST:
            self._known[id(value)] = weakref.ref(value)


def _stack_of(task: AnyObject) -> list[FrameType]:
    """The frames of a task, the innermost first: each comes before the frame that waits for it."""
    frames = map(frame_of, _awaited(_coroutine_of(task)))
    return [frame for frame in frames if frame is not None][::-1]


def of_debuggers(frames: list[stacks.RunningFrame], attributes: AttributeReader) -> list[stacks.RunningFrame]:
    """The frames that pdb shows at its prompt and that no thread runs: after an exception, "post mortem"."""
    seen = {id(frame) for frame, _ in frames}
    shown: list[FrameType] = []
    for frame, own_variables in frames:
        if plain.text(frame.f_code.co_name) == "interaction" and plain.text_in(frame.f_globals, "__name__") == "pdb":
            own = attributes.own_dict(own_variables.get("self")) or {}
            entries = dict.get(own, "stack")
            shown += [entry[0] for entry in entries if type(entry) is tuple] if type(entries) is list else []
    ended = [frame for frame in shown if type(frame) is FrameType and id(frame) not in seen]
    return stacks.with_variables(ended[-FRAMES_AT_MOST:])


def _in_sets(cls: AnyObject) -> list[Any]:
    """asyncio's tasks before Python 3.14, from its own sets of weak references."""
    module = dict.get(sys.modules, "asyncio.tasks")
    variables = plain.module_variables(module) if issubclass(type(module), ModuleType) else {}
    found: list[Any] = []
    for name in ("_all_tasks", "_scheduled_tasks"):  # before Python 3.12, and since
        tasks = dict.get(variables, name)
        if type(tasks) is weakref.WeakSet:
            found += map(weakref.ref.__call__, list(vars(tasks)["data"]))
    eager = dict.get(variables, "_eager_tasks")
    found += list(eager) if type(eager) is set else ()
    return list(compress(found, map(issubclass, map(type, found), repeat(cls))))


def _class_of_tasks() -> AnyObject:
    """The class of asyncio's own tasks; None if the program has not imported asyncio."""
    return plain.module_variables(sys.modules["_asyncio"]).get("Task") if "_asyncio" in sys.modules else None


def _coroutine_of(task: AnyObject) -> AnyObject:
    """The coroutine that a task runs."""
    return vars(_class_of_tasks())["get_coro"](task)


def _awaited(value: AnyObject) -> Iterator[Any]:
    """A coroutine, those that it waits for, and the generators of its `with` statements."""
    pending = [value]
    seen: set[int] = set()
    while pending and len(seen) < AWAITED_AT_MOST:
        value = pending.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        if is_generator(value):
            yield value
            stack = gc.get_referents(value, frame_of(value))  # before Python 3.11, the frame has the stack
            pending += filter(_leads_on, stack)
        else:
            pending += filter(is_generator, _held_by(value))


def _leads_on(value: AnyObject) -> bool:
    """Whether a value on a coroutine's stack is a coroutine, waits for one, or is the exit method of a `with`."""
    if plain.is_one_of(type(value), (MethodType,)):
        function = value.__func__
        return plain.is_one_of(type(function), (FunctionType,)) and function.__code__.co_name in _EXITS
    return is_generator(value) or plain.class_name(type(value)) in _AWAITABLES


def _held_by(value: AnyObject) -> list[Any]:
    """What an awaitable holds; for the exit method of a `with` statement, what its context manager holds."""
    if not plain.is_one_of(type(value), (MethodType,)):
        return gc.get_referents(value)
    held = gc.get_referents(value.__self__)
    return [*held, *(attribute for own in held if type(own) is dict for attribute in dict.values(own))]


def _namespaces(files: Mapping[str, str], value: AnyObject) -> list[Namespace]:
    """The variables of a generator, then of those that it waits for; [] if it runs or has ended."""
    return [
        Namespace(
            stacks.place(frame.f_code, frame.f_lineno, files),
            is_function=True,
            variables=variables(frame),
            code=None if stacks.is_of_library(frame) else frame.f_code,
        )
        for frame in frames_of(value)
    ]
