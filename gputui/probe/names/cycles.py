"""Whether only reference cycles keep some objects, told as Python's garbage collector does, and which blocks they keep.

If every reference to each of the objects comes from one of them, nothing outside leads to them, and `gc.collect()`
frees them. References from outside are those that Python counts beyond the ones found inside. A tensor that C++ code
holds as well outlives a collection.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from types import CellType, FrameType, FunctionType, GetSetDescriptorType, MethodType, ModuleType, TracebackType
from typing import Any, NamedTuple

from gputui.probe.objects import plain
from gputui.probe.objects.stacks import is_of_library
from gputui.probe.objects.torch_types import AnyObject, Tensor, Torch, tensor_base
from gputui.probe.search.modules import ModuleTrees
from gputui.probe.search.variables import NamedValue
from gputui.probe.tensors.entries import HOST, new_entry
from gputui.probe.tensors.gradients import AtRest, GradientReader
from gputui.probe.tensors.weak_storages import WeakStorages
from gputui.probe.tensors.wrapped_tensors import UNREADABLE
from gputui.protocol.categories import OTHER
from gputui.protocol.owners import KIND, UNNAMED, Owner, field

PASSED_AT_MOST = 4000
"""How many objects are visited on the way down from a cycle to its tensors."""
NAMED_AT_MOST = 3
_PLAIN_PARTS = (dict, list, tuple, set, frozenset, CellType, TracebackType, MethodType, GetSetDescriptorType)
"""Types that any cycle may go through: they say nothing of who made it."""
_SHARED = (ModuleType, type)
_OF_PROGRAM, _FRAME_OF_PROGRAM, _FRAME_OF_LIBRARY, _OF_TORCH = range(4)
_IMPORTS = "<frozen importlib._bootstrap>"
"""The file of the frames of Python's imports."""

# The values of `gputui.model.attached.target.CycleMaker`.
FUNCTION, FRAME, IMPORT = "function", "frame", "import"


class Closing(NamedTuple):
    """What closes a cycle, in words. `maker`: FUNCTION, FRAME, IMPORT or ""; `function`: the name of that function."""

    words: str
    maker: str = ""
    function: str = ""


class Cycle(NamedTuple):
    """A cycle that keeps blocks of these sizes, for as long as one of the samples, tensors that it keeps, is alive.

    `keeper` is a value of `gputui.model.attached.owners.Keeper`, and `owner` the owner of the blocks.
    """

    owner: Owner
    keeper: str
    sizes: frozenset[int]
    samples: WeakStorages

    @property
    def is_there(self) -> bool:
        """Whether the storage of a sample is still alive."""
        return any(self.samples.are_alive())


def are_kept_by_gradients(torch: Torch, tensors: list[Tensor]) -> bool:
    """Whether C++ keeps all these tensors, and one is a parameter whose gradient has a graph, which leads back to it.

    `backward(create_graph=True)` makes such cycles, and Python's collector does not see them.
    """
    gradients = GradientReader(torch, AtRest(torch))
    parameters = [tensor for tensor in tensors if issubclass(type(tensor), torch.nn.Parameter)]
    found = [gradient for gradient in map(gradients.gradient, parameters) if gradient is not None]
    return any(map(gradients.has_graph, found)) and all(is_held_by_cpp(torch, tensor) for tensor in tensors)


def are_closed(objects: list[Any]) -> bool:
    """Whether every reference to these objects comes from one of them. The caller's list is the only other holder."""
    return not any(count > 0 for count in counted_from_outside(objects))


def counted_from_outside(objects: list[Any]) -> list[int]:
    """How many references to each of these objects come from elsewhere; that of the list itself is not counted."""
    inside: Counter[int] = Counter(map(id, chain.from_iterable(map(gc.get_referents, objects))))
    alone = [object()]
    (held_here,) = map(sys.getrefcount, alone)
    return [count - held_here - inside[id(value)] for count, value in zip(map(sys.getrefcount, objects), objects)]


def closed_by(objects: Iterable[AnyObject]) -> Closing:
    """Who makes the cycle: "Net, hook (train.py:14)", at most three names.

    Functions and classes come before the program's frames; a library's frames and PyTorch's classes only without any.
    """
    told: dict[int, dict[str, str]] = {rank: {} for rank in range(_OF_TORCH + 1)}
    functions, is_of_import = [], False
    for value in objects:
        is_of_import = is_of_import or (type(value) is FrameType and value.f_code.co_filename == _IMPORTS)
        functions += [value.__code__.co_name] if type(value) is FunctionType else []
        label = _label(value)
        if label:
            told[_rank(value)].setdefault(label, value.f_code.co_name if type(value) is FrameType else "")
    names = {**told[_OF_PROGRAM], **told[_FRAME_OF_PROGRAM]} or {**told[_FRAME_OF_LIBRARY], **told[_OF_TORCH]}
    is_import = is_of_import and not told[_OF_PROGRAM]
    words = ", ".join([*(["an import"] if is_import else []), *names][:NAMED_AT_MOST])
    frame = next(filter(None, names.values()), "")
    if functions:
        return Closing(words, FUNCTION, functions[0])
    return Closing(words, IMPORT if is_import else FRAME, frame) if frame else Closing(words)


def _rank(value: AnyObject) -> int:
    """How much a value tells of who makes a cycle: the lowest rank tells most."""
    if type(value) is FrameType:
        return _FRAME_OF_LIBRARY if is_of_library(value) else _FRAME_OF_PROGRAM
    return _OF_TORCH if _is_of_torch(type(value)) else _OF_PROGRAM


def closing(cycle: list[Any]) -> Closing:
    """How the references go around: "hook (train.py:14) refers to the Net that holds it"."""
    if (told := closed_by(cycle)).maker == IMPORT:
        return told
    functions = [_label(value) for value in cycle if type(value) is FunctionType]
    frames = [value.f_code.co_name for value in cycle if type(value) is FrameType]
    classes = [plain.class_name(cls) for cls in classes_of(cycle) if _says_who(cls)]
    if frames:
        is_caught = any(issubclass(type(value), BaseException) for value in cycle)
        words = f"an exception, and a variable of {frames[0]}() that holds it" if is_caught else ""
        return Closing(words or f"the frame of {frames[0]}()", FRAME, frames[0])
    if functions:
        words = f"{functions[0]} refers to {f'the {classes[0]} that holds it' if classes else 'itself'}"
        return Closing(words, FUNCTION, told.function)
    if len(classes) > 1:
        return Closing(f"{classes[0]} and {classes[1]} refer to each other")
    if any(type(value) is MethodType for value in cycle):
        return Closing(f"{classes[0] if classes else 'an object'} holds a method of its own")
    return Closing(f"{classes[0] if classes else f'a {plain.type_name(cycle[0])}'} refers to itself")


def classes_of(cycle: list[Any]) -> list[type]:
    """The classes of the objects in a cycle, first those that say who made it: the program's own, then PyTorch's."""
    classes = list({id(type(value)): type(value) for value in cycle}.values())
    return sorted(classes, key=lambda cls: (not _says_who(cls), _is_of_python(cls), _is_of_torch(cls)))


def _says_who(cls: type) -> bool:
    """Whether objects of a class say who made a cycle: no containers, functions, frames, modules or classes do."""
    passed_over = (*_PLAIN_PARTS, FunctionType, FrameType)
    return not plain.is_one_of(cls, passed_over) and not issubclass(cls, (*_SHARED, dict, list))


def _is_of_torch(cls: type) -> bool:
    return _package(cls) == "torch"


def _is_of_python(cls: type) -> bool:
    return _package(cls) in getattr(sys, "stdlib_module_names", ())


def _package(cls: type) -> str:
    return plain.module_name(cls).partition(".")[0]


def tensors_below(torch: Torch, objects: list[Any]) -> list[Tensor]:
    """The tensors to which these objects lead, themselves included."""
    classes = torch.Tensor, torch.nn.Parameter
    seen = {id(value) for value in objects}
    pending, found = list(objects), []
    while pending and len(seen) < PASSED_AT_MOST:
        value = pending.pop()
        if plain.is_one_of(type(value), classes):
            found.append(value)
        for held in _held_by(value):
            if id(held) not in seen and gc.is_tracked(held):
                seen.add(id(held))
                pending.append(held)
    return found


def _held_by(value: AnyObject) -> Iterator[Any]:
    """What an object refers to, but for what it shares with others: classes, modules and their globals."""
    for held in gc.get_referents(value):
        if not issubclass(type(held), _SHARED) and not (type(held) is dict and "__builtins__" in held):
            yield held


def is_held_by_cpp(torch: Torch, tensor: Tensor) -> bool:
    """Whether C++ code holds a tensor, too, as a parameter holds its gradient; false if this PyTorch does not tell."""
    use_count = getattr(tensor_base(torch), "_use_count", None)
    try:
        return use_count is not None and bool(use_count(tensor) > 1)
    except UNREADABLE:
        return True


def _label(value: AnyObject) -> str:
    cls = type(value)
    if cls is FunctionType:
        return _of_code(value.__code__, value.__code__.co_firstlineno)
    if cls is FrameType:
        return f"the frame of {_of_code(value.f_code, value.f_lineno)}"
    return plain.class_name(cls) if _says_who(cls) else ""


def _of_code(code: Any, line: int | None) -> str:  # noqa: ANN401
    return f"{code.co_name} ({code.co_filename.rpartition('/')[2]}:{line or code.co_firstlineno})"


class Block(NamedTuple):
    """The device of a block, and how much was requested for it."""

    device: int
    requested_bytes: int


class Nameless:
    """The blocks of the last look to which no variable leads; belongs to one process.

    They have no name at all, or only that of the class of the module or optimizer that holds them.
    """

    def __init__(self) -> None:
        self.blocks: dict[int, Block] = {}
        """The blocks without any name, by address."""
        self._classes: set[str] = set()
        """The classes of modules and optimizers to which no variable leads."""

    def note_owners(self, trees: ModuleTrees, optimizers: Iterable[NamedValue]) -> None:
        """Know the classes of modules and optimizers that were found among Python's objects alone."""
        self._classes = trees.classes_alone()
        self._classes.update(named.name for named in optimizers if named.name == plain.type_name(named.value))

    def sizes(self, storages: Iterable[dict[str, Any]]) -> dict[int, int]:
        """How many bytes were requested for each of these blocks, by address; `storages` are those with an owner."""
        named = {at["address"]: at["size_bytes"] for at in storages if at["device"] != HOST and self._is_alone(at)}
        return {**named, **{address: block.requested_bytes for address, block in self.blocks.items()}}

    def say_kept(self, storages: list[dict[str, Any]], cycles: Mapping[int, Cycle]) -> None:
        """Say which of these storages `cycles` keep, by address, and add the blocks without any name that they keep."""
        for number, storage in enumerate(storages) if cycles else ():
            cycle = cycles.get(storage["address"])
            if cycle is not None and self._is_alone(storage):
                storages[number] = {**storage, "category": OTHER, "owner": cycle.owner, "keeper": cycle.keeper}
        for address in cycles.keys() & self.blocks.keys():
            block, cycle = self.blocks.pop(address), cycles[address]
            fields = block.device, address, block.requested_bytes, OTHER, cycle.owner, cycle.keeper
            storages.append(new_entry(*fields, "", [], "", [], is_pinned=False))

    def _is_alone(self, storage: dict[str, Any]) -> bool:
        if storage["keeper"] or storage["saved_by"]:
            return False
        owner: Owner = storage["owner"]
        return field(owner, KIND) == UNNAMED or owner[0].partition(".")[0].partition("[")[0] in self._classes
