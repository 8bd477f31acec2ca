"""The program's Python stacks: the variables of every thread's frames, read without leaving a trace.

`frame.f_locals` must not be used before Python 3.13. It copies every local into a dictionary that the frame keeps, so a
tensor that the program deletes would stay alive, and a dictionary that the program got from `locals()` would change.
There, the variables are read from the frame's own memory.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
from array import array
from collections.abc import Callable, Iterator, Mapping
from itertools import compress, repeat
from opcode import opmap
from struct import unpack
from types import (
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any, NamedTuple
from weakref import ref

from gputui.probe import plain

CO_OPTIMIZED, CO_VARARGS = 0x1, 0x4
PROBE = "gputui.probe"
NOTEBOOK_LIBRARIES = frozenset({"IPython", "ipykernel", "traitlets"})
"""What runs the cells of a notebook: its variables lead to the program's by names that nobody has written."""
_SETTING = frozenset(opmap[name] for name in ("STORE_ATTR", "DELETE_ATTR"))
_SETTERS = frozenset(("setattr", "delattr", "__setattr__", "__delattr__"))


class Namespace(NamedTuple):
    """Variables, and where to look for them in the source: "train.py:23 in step", "" for a module's globals.

    `code` is that of a frame, unless its function belongs to a library.
    """

    where: str
    is_function: bool
    variables: dict[str, Any]
    code: CodeType | None = None


class Running(NamedTuple):
    """A frame that a thread runs now, with its local variables; {} for the body of a module or class."""

    frame: FrameType
    variables: dict[str, Any]


class FrameLayout(NamedTuple):
    """Offsets in bytes. The frame object has the address of its data at `pointer`; the other offsets are in that data.

    If `pointer` is None, the frame object itself has the data.
    """

    pointer: int | None
    code: int
    globals: int
    variables: int


_TYPES_WITHOUT_DATA = (
    *(FunctionType, property, staticmethod, classmethod, GetSetDescriptorType, MemberDescriptorType),
    *(str, int, float, bool, type(None)),
)
"""The types of class attributes that hold nothing."""
_WITHOUT_DATA = frozenset(_TYPES_WITHOUT_DATA)
PACKAGES = ("site-packages", "dist-packages")
"""Folders of installed packages."""
POINTER = ctypes.sizeof(ctypes.c_void_p)
FRAME_LAYOUTS = {
    (3, 8): FrameLayout(pointer=None, code=32, globals=48, variables=360),
    (3, 9): FrameLayout(pointer=None, code=32, globals=48, variables=360),
    (3, 10): FrameLayout(pointer=None, code=32, globals=48, variables=352),
    (3, 11): FrameLayout(pointer=24, code=32, globals=8, variables=72),
    (3, 12): FrameLayout(pointer=24, code=0, globals=24, variables=72),
}
"""From CPython's frameobject.h and pycore_frame.h on 64-bit machines; verified on each frame before use."""
OBJECTS_AT_ONCE = 64
_Objects = ctypes.py_object * OBJECTS_AT_ONCE


def running() -> list[Running]:
    """Every thread's frames from the outermost inwards, without the probe's own."""
    frames = _outermost_first()
    return [Running(frame, variables(frame) if frame.f_code.co_flags & CO_OPTIMIZED else {}) for frame in frames]


def namespaces(
    files: Mapping[str, str], frames: list[Running], is_at_rest: Callable[[dict[str, Any]], bool]
) -> list[Namespace]:
    """`__main__`'s globals, then the variables of these frames, each after its module's globals.

    The globals of PyTorch, the standard library and the probe are left out: they hold nothing of the program's. So are
    those that are at rest. `files` has names for the files of some frames, such as "cell 12".
    """
    main = sys.modules.get("__main__")
    variables_of_main = plain.module_variables(main) if issubclass(type(main), ModuleType) else {}
    spaces = [Namespace("", is_function=False, variables=global_variables(variables_of_main))]
    seen = {id(variables_of_main)}
    for frame, local_variables in frames:
        module = frame.f_globals
        if id(module) not in seen:
            seen.add(id(module))
            if not is_library(module) and not is_at_rest(module):
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
    me = threading.get_ident()
    return any(is_in_backward(top) for thread, top in sys._current_frames().items() if thread != me)


def is_in_backward(top: FrameType) -> bool:
    """Whether the stack with this innermost frame waits for PyTorch's backward pass."""
    return any(
        plain.text(frame.f_code.co_name) == "_engine_run_backward"
        or plain.text_in(frame.f_globals, "__name__") == "torch.autograd"
        for frame in _upwards(top)
    )


def another_thread_sets_attribute() -> bool:
    """Whether another thread is in the middle of setting or deleting an attribute, such as a gradient.

    PyTorch releases the interpreter's lock while it frees the gradient that `p.grad = None` drops, and `p.grad` still
    leads to it then: to read it would end the program by SIGSEGV.
    """
    me = threading.get_ident()
    return any(_sets_attribute(top) for thread, top in sys._current_frames().items() if thread != me)


def _sets_attribute(frame: FrameType) -> bool:
    instructions, at = frame.f_code.co_code, frame.f_lasti
    is_set = 0 <= at < len(instructions) and instructions[at] in _SETTING
    return is_set or not _SETTERS.isdisjoint(frame.f_code.co_names)


def is_freeing(frames: list[Running]) -> bool:
    """Whether a frame runs code for an object that is being freed: `__del__`, or a weak reference's callback.

    If that object is a tensor which PyTorch was holding (a gradient, a saved tensor), PyTorch still leads to it.
    """
    return any(map(_is_destructor, frames))


def _is_destructor(running: Running) -> bool:
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


def variables(frame: FrameType) -> dict[str, Any]:
    """The local variables of a running function and those it uses of enclosing ones; {} if they cannot be read."""
    if sys.version_info >= (3, 13):
        return dict(frame.f_locals)  # here a view of the frame, not a copy that it keeps
    layout = FRAME_LAYOUTS.get(sys.version_info[:2])
    base = _base(frame, layout) if layout is not None and POINTER == 8 else None
    if layout is None or base is None:
        return {}
    return _read(base + layout.variables, frame.f_code)


def can_read_variables() -> bool:
    """Whether this interpreter's frames can be read: CPython, on a 64-bit machine before 3.13."""
    probe = sys.implementation.name
    return probe == "cpython" and (sys.version_info >= (3, 13) or variables(sys._getframe()).get("probe") is probe)


def _base(frame: FrameType, layout: FrameLayout) -> int | None:
    """The address that the layout's offsets count from; None unless the code and globals there are the frame's own."""
    base = id(frame) if layout.pointer is None else _word(id(frame) + layout.pointer)
    if base is None or _word(base + layout.code) != id(frame.f_code):
        return None
    return base if _word(base + layout.globals) == id(frame.f_globals) else None


def _word(address: int) -> int | None:
    return ctypes.c_void_p.from_address(address).value


def _read(address: int, code: CodeType) -> dict[str, Any]:
    """The variables whose slots begin at this address, in the order of the slots: those that have a value."""
    cells = (*code.co_cellvars, *code.co_freevars)
    names = code.co_varnames
    if cells:  # an argument that is a cell keeps its place among the arguments since Python 3.11
        names += (*[name for name in cells if name not in names],) if sys.version_info >= (3, 11) else cells
    slots = unpack(f"{len(names)}P", ctypes.string_at(address, len(names) * POINTER))
    pointers = array("Q", filter(None, slots))
    first, length = pointers.buffer_info()
    values: list[Any] = []
    for start in range(0, length, OBJECTS_AT_ONCE):
        values += _Objects.from_address(first + start * POINTER)[: length - start]
    found = dict(zip(compress(names, slots), values))
    for name in cells:
        value = found.get(name)
        if type(value) is CellType:
            del found[name]
            if is_filled(value):
                found[name] = value.cell_contents
    return found


def is_filled(cell: CellType) -> bool:
    """Whether the variable of a closure's cell has a value."""
    return bool(gc.get_referents(cell))


def _outermost_first() -> list[FrameType]:
    """The frames of all threads without the probe's own.

    No variable here may hold this function's own frame: that cycle would stay until a garbage collection.
    """
    tops: dict[int, FrameType | None] = dict(sys._current_frames())
    caller: FrameType | None = sys._getframe(1)
    while caller is not None and is_of_probe(caller):
        caller = caller.f_back
    tops[threading.get_ident()] = caller
    stacks = [list(_upwards(top)) for top in tops.values()]
    return [frame for stack in stacks for frame in reversed(stack) if not is_of_probe(frame)]


def _upwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def is_of_probe(frame: FrameType) -> bool:
    return plain.text_in(frame.f_globals, "__name__").startswith(PROBE)


def _is_data(name: str, value: object) -> bool:
    return name[:2] != "__" and not plain.is_one_of(type(value), _TYPES_WITHOUT_DATA)


def is_library(module: dict[str, Any]) -> bool:
    """Whether these are the globals of PyTorch, the standard library, a notebook's libraries or the probe's package."""
    name = _package(module)
    return name in {"torch", "gputui", *NOTEBOOK_LIBRARIES} or (name in STANDARD_LIBRARY and name != "__main__")


def _standard_library() -> frozenset[str]:
    """The names of its modules, which Python 3.8 and 3.9 do not list."""
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
