"""The program's Python stacks: the variables of every thread's frames, read without leaving a trace.

`frame.f_locals` must not be used before Python 3.13. It copies every local into a dictionary that the frame keeps, so a
tensor that the program deletes would stay alive, and a dictionary that the program got from `locals()` would change.
There, the variables are read from the frame's own memory.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
from collections.abc import Iterator, Mapping
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any, NamedTuple
from weakref import ref

CO_OPTIMIZED, CO_VARARGS = 0x1, 0x4
PROBE = "gputui.probe"
NOTEBOOK_LIBRARIES = frozenset({"IPython", "ipykernel", "traitlets"})
"""What runs the cells of a notebook: its variables lead to the program's by names that nobody has written."""


class Namespace(NamedTuple):
    """Variables, and where to look for them in the source: "train.py:23 in step", "" for a module's globals.

    `code` is that of a frame, unless its function belongs to a library.
    """

    where: str
    is_function: bool
    variables: dict[str, Any]
    code: CodeType | None = None


class FrameLayout(NamedTuple):
    """Offsets in bytes. The frame object has the address of its data at `pointer`; the other offsets are in that data.

    If `pointer` is None, the frame object itself has the data.
    """

    pointer: int | None
    code: int
    globals: int
    variables: int


_ATTRIBUTES_WITHOUT_DATA = (FunctionType, property, staticmethod, classmethod)
_namespace_of = type.__dict__["__dict__"].__get__

POINTER = ctypes.sizeof(ctypes.c_void_p)
FRAME_LAYOUTS = {
    (3, 10): FrameLayout(pointer=None, code=32, globals=48, variables=352),
    (3, 11): FrameLayout(pointer=24, code=32, globals=8, variables=72),
    (3, 12): FrameLayout(pointer=24, code=0, globals=24, variables=72),
}
"""From CPython's frameobject.h and pycore_frame.h on 64-bit machines; verified on each frame before use."""


def namespaces(files: Mapping[str, str]) -> list[Namespace]:
    """`__main__`'s globals, then every thread's frames from the outermost inwards, each after its module's globals.

    The globals of PyTorch, the standard library and the probe are left out: they hold nothing of the program's. `files`
    has names for the files of some frames, such as "cell 12".
    """
    main = sys.modules.get("__main__")
    spaces = [] if main is None else [Namespace("", is_function=False, variables=global_variables(vars(main)))]
    seen = {id(vars(main))} if main is not None else set()
    for frame in _outermost_first():
        module = frame.f_globals
        if id(module) not in seen:
            seen.add(id(module))
            if not is_library(module):
                spaces.append(Namespace("", is_function=False, variables=global_variables(module)))
        if is_of_notebook(frame):
            continue
        where = place(frame.f_code, frame.f_lineno, files)
        code = None if is_library(module) else frame.f_code
        if frame.f_code.co_flags & CO_OPTIMIZED:
            spaces.append(Namespace(where, is_function=True, variables=variables(frame), code=code))
        elif code is not None:
            spaces.append(Namespace(where, is_function=False, variables={}, code=code))
    return spaces


def global_variables(module: dict[str, Any]) -> dict[str, Any]:
    """A module's globals and the attributes of the classes it defines, `Logger.history`."""
    variables = dict(module)
    name = variables.get("__name__")
    for value in list(variables.values()):
        if issubclass(type(value), type) and type.__getattribute__(value, "__module__") == name:
            attributes = list(_namespace_of(value).items())
            variables.update((f"{value.__name__}.{key}", held) for key, held in attributes if _is_data(key, held))
    return variables


def another_thread_is_in_backward() -> bool:
    """Whether another thread waits for PyTorch's backward pass, which changes the graph meanwhile."""
    me = threading.get_ident()
    return any(is_in_backward(top) for thread, top in sys._current_frames().items() if thread != me)


def is_in_backward(top: FrameType) -> bool:
    """Whether the stack with this innermost frame waits for PyTorch's backward pass."""
    return any(
        frame.f_code.co_name == "_engine_run_backward" or frame.f_globals.get("__name__") == "torch.autograd"
        for frame in _upwards(top)
    )


def is_freeing() -> bool:
    """Whether a thread runs Python code for an object that is being freed: `__del__`, or a weak reference's callback.

    If that object is a tensor which PyTorch was holding (a gradient, a saved tensor), PyTorch still leads to it.
    """
    return any(map(_is_destructor, _outermost_first()))


def _is_destructor(frame: FrameType) -> bool:
    code = frame.f_code
    if code.co_name == "__del__":
        return True
    number = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & CO_VARARGS)
    values = variables(frame) if number else {}
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
    return dict(_read(base + layout.variables, _names(frame.f_code)))


def can_read_variables() -> bool:
    """Whether this interpreter's frames can be read: CPython 3.10 and newer, on a 64-bit machine before 3.13."""
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


def _names(code: CodeType) -> list[tuple[str, bool]]:
    """The frame's slots in order: the variable's name, and whether the slot may hold a cell."""
    cells = list(code.co_cellvars)
    if sys.version_info >= (3, 11):  # an argument that is a cell keeps its place among the arguments
        slots = [(name, name in cells) for name in code.co_varnames]
        cells = [name for name in cells if name not in code.co_varnames]
    else:
        slots = [(name, False) for name in code.co_varnames]
    return slots + [(name, True) for name in (*cells, *code.co_freevars)]


def _read(address: int, slots: list[tuple[str, bool]]) -> Iterator[tuple[str, Any]]:
    for number, (name, is_cell) in enumerate(slots):
        slot = address + number * POINTER
        if not _word(slot):
            continue
        value: Any = ctypes.py_object.from_address(slot).value
        if not (is_cell and type(value) is CellType):
            yield name, value
        elif is_filled(value):
            yield name, value.cell_contents


def is_filled(cell: CellType) -> bool:
    """Whether the variable of a closure's cell has a value."""
    return bool(gc.get_referents(cell))


def _outermost_first() -> list[FrameType]:
    """The frames of all threads without the probe's own.

    No variable here may hold this function's own frame: that cycle would stay until a garbage collection.
    """
    tops: dict[int, FrameType | None] = dict(sys._current_frames())
    caller: FrameType | None = sys._getframe(1)
    while caller is not None and _is_probe(caller):
        caller = caller.f_back
    tops[threading.get_ident()] = caller
    stacks = [list(_upwards(top)) for top in tops.values()]
    return [frame for stack in stacks for frame in reversed(stack) if not _is_probe(frame)]


def _upwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_probe(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith(PROBE)


def _is_data(name: str, value: object) -> bool:
    return not (name[:2] == "__" or type(value) in _ATTRIBUTES_WITHOUT_DATA)


def is_library(module: dict[str, Any]) -> bool:
    """Whether these are the globals of PyTorch, the standard library, a notebook's libraries or the probe's package."""
    name = _package(module)
    return name in {"torch", "gputui", *NOTEBOOK_LIBRARIES} or (name in sys.stdlib_module_names and name != "__main__")


def is_of_library(frame: FrameType) -> bool:
    """Whether the frame is of PyTorch, the standard library or a library that runs notebooks."""
    return is_library(frame.f_globals)


def is_of_notebook(frame: FrameType) -> bool:
    """Whether the frame is of a library that runs the cells of a notebook."""
    return _package(frame.f_globals) in NOTEBOOK_LIBRARIES


def _package(module: dict[str, Any]) -> str:
    return str(module.get("__name__", "")).partition(".")[0]


def place(code: CodeType, line: int, files: Mapping[str, str]) -> str:
    """ "train.py:23 in step"; `files` has names for some files, such as "cell 12"."""
    file = files.get(code.co_filename) or code.co_filename.rpartition("/")[2]
    return f"{file}:{line} in {code.co_name}"
