"""The program's Python stacks: every thread's frames, the variables they lead to, and what the threads are doing."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from itertools import chain, compress, repeat
from opcode import opmap
from operator import attrgetter
from types import (
    CodeType,
    FrameType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any, NamedTuple
from weakref import ref

from gputui.probe.guards.originals import get_ident
from gputui.probe.guards.thread_frames import current_frames, stack, stacks
from gputui.probe.objects import plain
from gputui.probe.objects.frame_variables import CO_OPTIMIZED, variables_of
from gputui.probe.objects.torch_types import AnyObject, Torch
from gputui.protocol.owners import Where, place_of

CO_VARARGS = 0x4
PROBE = "gputui.probe"
NOTEBOOK_LIBRARIES = frozenset({"IPython", "ipykernel", "traitlets"})
"""The libraries that run notebooks: their variables lead to the program's objects by names that nobody has written."""
_SETTING = frozenset(opmap[name] for name in ("STORE_ATTR", "DELETE_ATTR"))
_SETTERS = frozenset(("setattr", "delattr", "__setattr__", "__delattr__"))


class Namespace(NamedTuple):
    """Variables, and where to look for them in the source: "train.py:23 in step", "" for a module's globals.

    `code` is the code of a frame; None for globals, and for a function of a library.
    """

    where: str
    is_function: bool
    variables: dict[str, Any]
    code: CodeType | None = None


class RunningFrame(NamedTuple):
    """A frame that a thread runs now, with its local variables; {} for the body of a module or class."""

    frame: FrameType
    variables: dict[str, Any]


_code_of, _globals_of = attrgetter("f_code"), attrgetter("f_globals")
_TYPES_WITHOUT_DATA = (
    *(FunctionType, property, staticmethod, classmethod, GetSetDescriptorType, MemberDescriptorType),
    *(str, int, float, bool, type(None)),
)
"""The types of class attributes that hold nothing."""
_WITHOUT_DATA = frozenset(_TYPES_WITHOUT_DATA)
PACKAGES = ("site-packages", "dist-packages")
"""Folders of installed packages."""


def running() -> list[RunningFrame]:
    """Every thread's frames from the outermost inwards, without the probe's own."""
    return with_variables([frame for frames in stacks_by_thread().values() for frame in of_the_program(frames)])


def with_variables(frames: list[FrameType]) -> list[RunningFrame]:
    """These frames with their variables."""
    return list(map(RunningFrame, frames, variables_of(frames)))


def namespaces(files: Mapping[str, str], frames: list[RunningFrame]) -> list[Namespace]:
    """`__main__`'s globals, then the variables of these frames, each after its module's globals.

    The globals of PyTorch, the standard library and the probe are left out: they hold nothing of the program's. So are
    those of other installed modules, for `ProgramModules`. `files` has names for some frames' files, such as "cell 12".
    """
    main = sys.modules.get("__main__")
    variables_of_main = plain.module_variables(main) if issubclass(type(main), ModuleType) else {}
    spaces = [Namespace("", is_function=False, variables=global_variables(variables_of_main))]
    return spaces + namespaces_of(files, frames, {id(variables_of_main)})


def namespaces_of(files: Mapping[str, str], frames: list[RunningFrame], seen: set[int]) -> list[Namespace]:
    """The same without `__main__`'s globals. `seen`: the ids of globals to leave out, to which those met are added."""
    spaces = []
    for frame, local_variables in frames:
        module = frame.f_globals
        if id(module) not in seen:
            seen.add(id(module))
            if not is_library(module) and not is_of_package(module):
                spaces.append(Namespace("", is_function=False, variables=global_variables(module)))
        if is_of_notebook(frame):
            continue
        where = place(frame.f_code, frame.f_lineno, files)
        code = None if is_library(module) else frame.f_code
        if frame.f_code.co_flags & CO_OPTIMIZED:
            spaces.append(Namespace(where, is_function=True, variables=local_variables, code=code))
        elif code is not None:
            spaces.append(Namespace(where, is_function=False, variables={}, code=code))
    return spaces


def global_variables(module: dict[str, Any]) -> dict[str, Any]:
    """A module's globals and the attributes of the classes it defines, `Logger.history`."""
    variables = plain.variables_of(module)
    name = plain.text_in(variables, "__name__")
    is_class = map(issubclass, map(type, variables.values()), repeat(type))
    for cls in list(compress(variables.values(), is_class)):
        if plain.module_name(cls) != name:
            continue
        namespace = plain.namespace_of(cls)
        if not _may_hold_data(namespace):
            continue
        attributes = [(plain.name_of(key), held) for key, held in list(namespace.items())]
        prefix = plain.class_name(cls)
        variables.update((f"{prefix}.{key}", held) for key, held in attributes if key and _is_data(key, held))
    return variables


def _may_hold_data(namespace: Mapping[str, Any]) -> bool:
    classes = list(map(type, namespace.values()))
    return not plain.are_plain(classes) or not _WITHOUT_DATA.issuperset(classes)


def another_thread_is_in_backward() -> bool:
    """Whether another thread waits for PyTorch's backward pass, which changes the graph meanwhile."""
    me = get_ident()
    return are_in_backward(stacks([top for thread, top in current_frames().items() if thread != me]))


def is_in_backward(top: FrameType) -> bool:
    """Whether the stack with this innermost frame waits for PyTorch's backward pass."""
    return are_in_backward([stack(top)])


def are_in_backward(found: Iterable[list[FrameType]]) -> bool:
    """Whether one of these stacks waits for it. Each function and each module is asked for its name once."""
    frames = list(chain.from_iterable(found))
    names = map(attrgetter("co_name"), plain.by_id(map(_code_of, frames)).values())
    modules = plain.by_id(map(_globals_of, frames)).values()
    return "_engine_run_backward" in map(plain.text, names) or "torch.autograd" in (
        plain.text_in(module, "__name__") for module in modules
    )


def is_in_backward_here(torch: Torch) -> bool:
    """Whether the calling thread itself runs a node of a backward pass, which waits for the look."""
    return bool(torch._C._current_graph_task_id() != -1)


def another_thread_sets_attribute() -> bool:
    """Whether another thread is in the middle of setting or deleting an attribute, such as a gradient.

    PyTorch releases the interpreter's lock while it frees the gradient that `p.grad = None` drops, and `p.grad` still
    leads to it then: to read it would end the program by SIGSEGV.
    """
    me = get_ident()
    return any(_sets_attribute(top) for thread, top in current_frames().items() if thread != me)


def _sets_attribute(frame: FrameType) -> bool:
    instructions, at = frame.f_code.co_code, frame.f_lasti
    is_set = 0 <= at < len(instructions) and instructions[at] in _SETTING
    return is_set or not _SETTERS.isdisjoint(frame.f_code.co_names)


def is_freeing(frames: list[RunningFrame]) -> bool:
    """Whether a frame runs code for an object that is being freed: `__del__`, or a weak reference's callback.

    If that object is a tensor which PyTorch was holding (a gradient, a saved tensor), PyTorch still leads to it.
    """
    return any(map(_is_destructor, frames))


def _is_destructor(running: RunningFrame) -> bool:
    code, values = running.frame.f_code, running.variables
    if plain.text(code.co_name) == "__del__":
        return True
    number = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & CO_VARARGS)
    arguments = [values.get(name) for name in code.co_varnames[:number]]
    rest = arguments[-1] if arguments and type(arguments[-1]) is tuple else ()
    return any(map(_is_dead, [*arguments, *rest]))


def _is_dead(value: object) -> bool:
    """Whether this is a weak reference to an object that is gone, as the callback of a weak reference gets."""
    return issubclass(type(value), ref) and ref.__call__(value) is None  # type: ignore[arg-type]


def stacks_by_thread() -> dict[int, list[FrameType]]:
    """The frames of all threads from the innermost outwards, the probe's other threads included, this look's left out.

    No variable here may hold this function's own frame: that cycle would stay until a garbage collection.
    """
    tops: dict[int, FrameType | None] = dict(current_frames())
    tops[get_ident()] = frame_of_the_program()
    return dict(zip(tops, stacks(tops.values())))


def of_the_program(frames: list[FrameType]) -> list[FrameType]:
    """The frames of a stack from the outermost inwards, without the probe's."""
    return [frame for frame in reversed(frames) if not is_of_probe(frame)]


def frame_of_the_program() -> FrameType | None:
    """The innermost frame of the calling thread that is not the probe's; None without one."""
    return next((frame for frame in stack(sys._getframe(1)) if not is_of_probe(frame)), None)


def is_of_probe(frame: FrameType) -> bool:
    return plain.text_in(frame.f_globals, "__name__").startswith(PROBE)


def _is_data(name: str, value: object) -> bool:
    return name[:2] != "__" and not plain.is_one_of(type(value), _TYPES_WITHOUT_DATA)


def is_library(module: dict[str, Any]) -> bool:
    """Whether these are the globals of PyTorch, the standard library, a notebook's libraries or the probe's package."""
    name = _package(module)
    return name in {"torch", "gputui", *NOTEBOOK_LIBRARIES} or (name in STANDARD_LIBRARY and name != "__main__")


def _standard_library() -> frozenset[str]:
    """The names of the standard library's modules, which Python 3.8 and 3.9 do not list."""
    files = {file.partition(".")[0] for file in os.listdir(os.path.dirname(os.__file__))} - {"site-packages"}
    return frozenset(sys.builtin_module_names).union(files)


STANDARD_LIBRARY = getattr(sys, "stdlib_module_names", None) or _standard_library()


def is_of_package(module: dict[str, Any]) -> bool:
    """Whether these are the globals of a module that was installed."""
    file = plain.text_in(module, "__file__")
    return any(map(file.__contains__, PACKAGES))


def is_of_library(frame: FrameType) -> bool:
    """Whether the frame is of PyTorch, the standard library or a library that runs notebooks."""
    return is_library(frame.f_globals)


def is_of_notebook(frame: FrameType) -> bool:
    """Whether the frame is of a library that runs the cells of a notebook."""
    return _package(frame.f_globals) in NOTEBOOK_LIBRARIES


def _package(module: dict[str, Any]) -> str:
    return plain.text_in(module, "__name__").partition(".")[0]


def place(code: CodeType, line: int | str, files: Mapping[str, str]) -> str:
    """ "train.py:23 in step"; `files` has names for some files, such as "cell 12"."""
    path = plain.text(code.co_filename)
    return f"{files.get(path) or path.rpartition('/')[2]}:{line} in {plain.text(code.co_name)}"


def function_at(where: Where) -> tuple[str, str]:
    """The file and the name of the function at a place: the line changes while the function runs."""
    line, _, name = place_of(where).rpartition(" in ")
    return line.rpartition(":")[0], name


def have_variable(spaces: list[Namespace], name: str, where: Where, value: AnyObject) -> bool:
    """Whether one of these namespaces has this value by this name, in the function at that place."""
    found = [space.where for space in spaces if space.variables.get(name) is value]
    return function_at(where) in map(function_at, found)
