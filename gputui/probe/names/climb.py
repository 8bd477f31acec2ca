"""Climbs from tensors without a name to their referrers, level by level, until an object has a name.

Each call of `gc.get_referrers` visits every object that Python's collector tracks, and cannot be interrupted: so each
call is a stop of its own. A climb begins with a few tensors of the largest unnamed group: an object above all of these
holds the rest, too. Between two stops, objects are known by their addresses alone (`objects/handles.py`). If a climb
ends without a name, as nothing else refers to the objects on its way, they may be in a cycle (`names/cycles.py`).
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain, compress, repeat
from operator import is_
from types import FrameType, ModuleType
from typing import Any, NamedTuple

from gputui.probe.names.cycles import (
    Cycle,
    are_closed,
    are_kept_by_gradients,
    closed_by,
    is_held_by_cpp,
    tensors_below,
)
from gputui.probe.objects import plain
from gputui.probe.objects.handles import Handle, handle_of, objects_of
from gputui.probe.objects.listing import finished, of_classes
from gputui.probe.objects.stacks import is_of_probe, stacks_by_thread
from gputui.probe.objects.torch_types import AnyObject, Tensor, Torch, tensor_base
from gputui.probe.search.keepers import CYCLE, GRADIENT_GRAPH
from gputui.probe.search.variables import NamedValue
from gputui.probe.tensors.weak_storages import WeakStorages
from gputui.probe.tensors.wrapped_tensors import UNREADABLE
from gputui.protocol import owners

SAMPLES = 4
"""From how many tensors of a group one climb begins."""
LEVELS_AT_MOST = 16
WIDTH_AT_MOST = 48
"""How many objects of one level are climbed from: each adds half a millisecond to the visit of all objects."""
FRUITLESS, LONGEST_REST = 3, 16
"""After `FRUITLESS` climbs in turn that led to nothing new, the next looks do not climb, `LONGEST_REST` at most."""
TRIED_AGAIN_AT = 2
"""A group of blocks from which no name was reached is tried again once it has this many times as many blocks."""
KNOWN_GROUPS_AT_MOST = 1024
KNOWN_CYCLES_AT_MOST = 32
OF_GRADIENTS = ("parameters and gradients of models that are gone", "", owners.WORDS)


class Path(NamedTuple):
    """The way down to a sample: a value with a name, and the objects from it to the sample, both included."""

    variable: NamedValue
    handles: tuple[Handle, ...]


class _Node:
    """An object on the way up. `below`: by sample, the address of the next object down to it; 0 in the sample's own."""

    __slots__ = ("below", "handle")

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        self.below: dict[int, int] = {}


class Climb:
    """One climb at a time; belongs to one process. `advance` and `note_end` are called in a stop, the rest after it."""

    def __init__(self) -> None:
        self._unnamed: dict[int, int] = {}
        """The blocks from which a climb may begin: sizes by address, of those that had no name in the last look."""
        self._in_vain: dict[int, int] = {}
        """By size: how many blocks had no name when a climb from some of them reached no name."""
        self._samples: list[Handle] = []
        self._size_bytes = 0
        """The size of each sample's block."""
        self._nodes: dict[int, _Node] = {}
        """The objects that the climb has come to, by address."""
        self._frontier: list[Handle] = []
        self._levels = 0
        self._fruitless = self._rest = 0
        """How many climbs in turn have led to nothing new, and for how many more looks none begins."""
        self._fruitless_bytes = 0
        """How many bytes had no name when the last climb began."""
        self._has_new_frames = False
        """Whether the last level has frames. None of them runs: a running frame shows no referents."""
        self._is_whole = True
        """Whether the climb under way has left out no referrer."""
        self._cycles: list[Cycle] = []
        self._has_found_cycle = False
        """Whether the last climb has ended in a cycle."""

    @property
    def has_cycles(self) -> bool:
        """Whether a climb has ended in a cycle that may still be there."""
        return bool(self._cycles)

    def kept_by_cycles(self, sizes: Mapping[int, int]) -> dict[int, Cycle]:
        """For each of these unnamed blocks that a cycle keeps, the cycle, by the block's address.

        A block is told by its size alone: it has that of a block found below a cycle of which a sample is still alive.
        """
        gone = [cycle for cycle in self._cycles if not cycle.is_there]
        for size in {size for cycle in gone for size in cycle.sizes}:
            self._in_vain.pop(size, None)
        self._cycles = [cycle for cycle in self._cycles if cycle.is_there]
        by_size = {size: cycle for cycle in self._cycles for size in cycle.sizes}
        return {address: by_size[size] for address, size in sizes.items() if size in by_size} if by_size else {}

    def note_unnamed(self, sizes: Mapping[int, int]) -> None:
        """Note the blocks for which a look has found no name: sizes by address.

        Nothing in Python leads to what C++ code holds. So after some climbs in vain, looks do not climb for a while,
        unless much more has no name by then.
        """
        if self._rest and sum(sizes.values()) < TRIED_AGAIN_AT * self._fruitless_bytes:
            self._rest -= 1
            self._unnamed = {}
            return
        counts = Counter(sizes.values())
        tried = {size for size, count in self._in_vain.items() if counts[size] < TRIED_AGAIN_AT * count}
        self._unnamed = {address: size for address, size in sizes.items() if size not in tried}

    def note_end(self, *, is_fruitful: bool) -> None:
        """Note that the climb has ended; `is_fruitful`: it has led to a container that was not yet remembered."""
        is_fruitful = is_fruitful or self._has_found_cycle
        self._fruitless = 0 if is_fruitful else self._fruitless + 1
        self._rest = 0 if self._fruitless < FRUITLESS else min(2 ** (self._fruitless - FRUITLESS + 1), LONGEST_REST)

    @property
    def unnamed_bytes(self) -> int:
        """How many bytes the blocks have from which a climb may still lead to a name."""
        return sum(self._unnamed.values())

    def advance(self, torch: Torch, known: Callable[[], Mapping[int, NamedValue]]) -> list[Path]:
        """Go up one level, or find tensors to begin with; returns the ways down once an object has a name.

        `known` returns the values that have names, by id. It is called after the search for referrers, as the
        dictionaries that it makes would be among these.
        """
        if not self._samples:
            self._begin(torch)
            return []
        if self._has_new_frames:
            self._go_inwards()
            return []
        level, rest = self._frontier[:WIDTH_AT_MOST], self._frontier[WIDTH_AT_MOST:]
        objects = [value for value in objects_of(level) if value is not None]
        self._go_up(objects)
        objects += [value for value in objects_of(self._frontier) if value is not None]
        self._frontier += rest
        self._levels += 1
        paths = self._paths(objects, known())
        if paths or not self._frontier or self._levels >= LEVELS_AT_MOST:
            if not any(len(path.handles) > 1 for path in paths):
                objects.clear()  # what follows counts the references
                if self._is_whole and not paths and not self._frontier:
                    self._note_cycle(torch)
                self._give_up()
            self._samples, self._nodes, self._frontier, self._levels = [], {}, [], 0
            self._has_new_frames = False
        return paths

    @property
    def is_under_way(self) -> bool:
        """Whether a climb has begun and not ended."""
        return bool(self._samples)

    def _begin(self, torch: Torch) -> None:
        """Find some tensors of the largest group of unnamed blocks: all tensors are referrers of their type."""
        self._fruitless_bytes = self.unnamed_bytes
        classes = torch.Tensor, torch.nn.Parameter
        tensors = of_classes(partial(gc.get_referrers, *classes), {*map(id, classes)})
        found = [(address, tensor) for address, tensor in _placed(torch, tensors) if address in self._unnamed]
        largest = Counter(self._unnamed[address] for address, _ in found)
        if not found:
            self._in_vain.update(Counter(self._unnamed.values()))
            self._unnamed = {}
            return
        self._size_bytes = max(largest, key=lambda size: size * largest[size])
        of_group = [tensor for address, tensor in found if self._unnamed[address] == self._size_bytes]
        step = max(1, len(of_group) // SAMPLES)
        samples = of_group[step // 2 :: step][:SAMPLES]
        self._samples = list(map(handle_of, samples))
        self._frontier = [*self._samples]
        self._nodes = {sample.address: _Node(sample) for sample in self._samples}
        for number, sample in enumerate(self._samples):
            self._nodes[sample.address].below[number] = 0
        self._is_whole, self._has_found_cycle = True, False

    def _go_up(self, objects: list[Any]) -> None:
        """Take the referrers of these objects as the next level."""
        ask = partial(gc.get_referrers, *objects)
        referrers = finished(ask) if objects else []
        own, idents = {id(objects), id(referrers), id(ask.args)}, set(map(id, objects))
        frontier: list[Handle] = []
        for referrer in referrers:
            if referrer is None or id(referrer) in own or _is_passed_over(referrer):
                continue
            node = self._nodes.get(id(referrer))
            if node is None:
                if len(frontier) >= WIDTH_AT_MOST:
                    self._is_whole = False
                    continue
                node = self._nodes[id(referrer)] = _Node(handle_of(referrer))
                frontier.append(node.handle)
                self._has_new_frames = self._has_new_frames or type(referrer) is FrameType
            for ident in idents.intersection(map(id, gc.get_referents(referrer))):
                for number in self._nodes[ident].below:
                    node.below.setdefault(number, ident)
        self._frontier = frontier

    def _go_inwards(self) -> None:
        """Add at once the frames called from those of this level, and from these in turn: each refers to its caller.

        A caught exception often keeps a hundred frames if modules were importing one another.
        """
        self._has_new_frames = False
        running = set(map(id, chain.from_iterable(stacks_by_thread().values())))
        called: dict[int, list[FrameType]] = {}
        frames = of_classes(gc.get_objects, {id(FrameType)})
        for frame in frames:
            if id(frame) not in running and not is_of_probe(frame) and frame.f_back is not None:
                called.setdefault(id(frame.f_back), []).append(frame)
        frames.clear()  # it may have the frame of this function, which would keep it
        for handle in self._frontier:  # which gets longer
            node = self._nodes[handle.address]
            for frame in called.get(handle.address, ()):
                if id(frame) not in self._nodes:
                    inner = self._nodes[id(frame)] = _Node(handle_of(frame))
                    inner.below.update(dict.fromkeys(node.below, handle.address))
                    self._frontier.append(inner.handle)
        called.clear()

    def _paths(self, objects: list[Any], known: Mapping[int, NamedValue]) -> list[Path]:
        """The way down to each sample, from the first of these objects that has a name and leads to it."""
        paths: dict[int, Path] = {}
        for value in objects:
            variable = known.get(id(value)) or named_by_itself(value)
            node = self._nodes[id(value)]
            for number in node.below if variable is not None else ():
                if number not in paths and variable is not None:
                    paths[number] = Path(variable._replace(value=None), self._down(node, number))
        return list(paths.values())

    def _down(self, node: _Node, number: int) -> tuple[Handle, ...]:
        handles = [node.handle]
        while node.below[number]:
            node = self._nodes[node.below[number]]
            handles.append(node.handle)
        return tuple(handles)

    def _note_cycle(self, torch: Torch) -> None:
        """Note what keeps the samples, if only cycles do; called for a climb that has left out no referrer.

        A parameter keeps its gradient alive from C++, which looks like a reference from outside: so up to half of the
        samples may be held by C++.
        """
        samples = [sample for sample in objects_of(self._samples) if sample is not None]
        storages = WeakStorages()
        storages.add(samples)
        held = {id(sample) for sample in samples if is_held_by_cpp(torch, sample)}
        if samples and self._levels == 1 and are_kept_by_gradients(torch, samples):
            self._know_cycle(OF_GRADIENTS, GRADIENT_GRAPH, [self._size_bytes], storages)
            return
        is_enough = bool(samples) and len(held) <= len(samples) // 2
        del samples  # what follows counts the references
        handles = [node.handle for ident, node in self._nodes.items() if ident not in held] if is_enough else []
        objects = objects_of(handles)
        if not objects or any(map(is_, objects, repeat(None))) or not are_closed(objects):
            return
        below = (address for address, _ in _placed(torch, tensors_below(torch, objects)))
        sizes = [self._unnamed[address] for address in below if address in self._unnamed]
        told = closed_by(objects)
        owner = told.words, "", owners.CYCLE, told.maker, told.function
        self._know_cycle(owner, CYCLE, [self._size_bytes, *sizes], storages)

    def _know_cycle(self, owner: owners.Owner, keeper: str, sizes: list[int], samples: WeakStorages) -> None:
        cycle = Cycle(owner, keeper, frozenset(sizes), samples)
        self._unnamed = {address: size for address, size in self._unnamed.items() if size not in cycle.sizes}
        self._cycles.append(cycle)
        self._has_found_cycle = True
        del self._cycles[:-KNOWN_CYCLES_AT_MOST]

    def _give_up(self) -> None:
        """Nothing with a name leads to the samples: begin no climb with blocks of their size soon."""
        if len(self._in_vain) > KNOWN_GROUPS_AT_MOST:
            self._in_vain.clear()
        self._in_vain[self._size_bytes] = sum(size == self._size_bytes for size in self._unnamed.values())


def named_by_itself(value: AnyObject) -> NamedValue | None:
    """A class or the globals of a module, as a value with a name; None for anything else."""
    if issubclass(type(value), type):
        return NamedValue(value, plain.class_name(value), "")
    return NamedValue(value, "", "") if is_of_module(value) else None


def is_of_module(value: AnyObject) -> bool:
    """Whether a value is the dictionary of a module's globals."""
    if type(value) is not dict or "__name__" not in value or "__builtins__" not in value:
        return False
    module = sys.modules.get(plain.text_in(value, "__name__"))
    return issubclass(type(module), ModuleType) and plain.module_variables(module) is value


def _is_passed_over(referrer: AnyObject) -> bool:
    """Whether this is a frame of the probe; before Python 3.11 any frame, as running ones refer to their variables."""
    return type(referrer) is FrameType and (sys.version_info < (3, 11) or is_of_probe(referrer))


def _placed(torch: Torch, tensors: list[Tensor]) -> Iterable[tuple[int, Tensor]]:
    """Those of these tensors that are on a CUDA device, each with the address of its storage."""
    for tensor in compress(tensors, map(tensor_base(torch).is_cuda.__get__, tensors)):
        with suppress(*UNREADABLE):
            yield torch._C._data_address(tensor), tensor
