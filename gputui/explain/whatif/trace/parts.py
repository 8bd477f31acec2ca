"""What each request of a step is for, and in which phase: `changes` decides by this which operations to edit."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gputui.explain.step.kinds import KIND_OF
from gputui.explain.step.kinds import Kind as Purpose
from gputui.explain.step.phases import TORCH, Phase
from gputui.explain.step.step import Step
from gputui.explain.step.timeline import BEFORE
from gputui.explain.whatif.trace.operations import FOREVER, Kind, Operations, lifetimes
from gputui.model.attached.allocator import CallSite
from gputui.model.attached.tensors import WEIGHTS, Category
from gputui.model.attached.trace import Rehearsal

AUTOCAST_BYTES = 1 << 20
"""A half-sized allocation is taken for autocast's copy only for parameters of at least this size."""
_LAYER = re.compile(r"^(?:.*?\.)?\d+(?=\.|$)")
"""The path of a layer of a list: `model.layers.12` of `model.layers.12.mlp.up_proj`."""


@dataclass(frozen=True, slots=True)
class Span:
    """A phase: the operations from `first` to before `end`."""

    phase: Phase
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Parts:
    """The columns are by the number of the allocation; `births` and `deaths` are places of operations.

    `blocks` numbers the calls of layers that could be checkpointed, -1 for none. `element_bytes` is the size of an
    element, 0 where it is not floating point or not known. `states` are the allocations of optimizer states in the
    order in which the optimizer makes them, as far as their names tell.
    """

    purposes: tuple[Purpose, ...]
    spans: tuple[Span, ...]
    births: array[int]
    deaths: array[int]
    blocks: array[int]
    element_bytes: bytes
    states: tuple[int, ...] = ()

    def of(self, *purposes: Purpose) -> Iterator[int]:
        """The allocations for one of these purposes."""
        return (number for number, purpose in enumerate(self.purposes) if purpose in purposes)

    def after(
        self, operations: Operations, moved: Sequence[int], origins: Sequence[int], element_bytes: Mapping[int, int]
    ) -> Parts:
        """The parts of edited operations, without `states`; the other arguments are those of `changes.Edit`."""
        births, deaths = lifetimes(operations)
        return Parts(
            tuple(self.purposes[origin] for origin in origins),
            tuple(Span(span.phase, moved[span.first], moved[span.end]) for span in self.spans),
            births,
            deaths,
            array("q", [self.blocks[origin] for origin in origins]),
            bytes(element_bytes.get(origin, self.element_bytes[origin]) for origin in origins),
        )

    def span_at(self, place: int) -> int:
        """The index in `spans` of the span that an operation is in, -1 before the first."""
        return bisect_right(self.spans, place, key=lambda span: span.first) - 1


_PHASES = {"forward": Phase.FORWARD, "backward": Phase.BACKWARD, "optimizer": Phase.OPTIMIZER}
_MADE_BY_LAYERS = (Purpose.ACTIVATION, Purpose.TEMPORARY, Purpose.OTHER)
_PURPOSES = {category.value: purpose for category, purpose in KIND_OF.items()}


def parts_ahead(rehearsal: Rehearsal, operations: Operations) -> Parts | None:
    """The parts of a step on tensors without data; None where it has no forward phase."""
    marks = [*rehearsal.marks, (len(operations.kinds), "")]
    spans = tuple(Span(_PHASES.get(name, Phase.UNKNOWN), first, end) for (first, name), (end, _) in pairwise(marks))
    if not any(span.phase is Phase.FORWARD for span in spans):
        return None
    births, deaths = lifetimes(operations)
    named = tuple(_PURPOSES.get(category, Purpose.OTHER) for category in rehearsal.categories)
    parts = Parts(named, spans, births, deaths, array("q"), rehearsal.element_bytes)
    purposes = tuple(_refined(parts, number) for number in range(len(named)))
    calls: dict[tuple[int, str], int] = {}
    blocks = array("q")
    for number, path in enumerate(rehearsal.modules):
        layer = _LAYER.match(path) if purposes[number] in _MADE_BY_LAYERS else None
        call = (parts.span_at(births[number]), layer[0]) if layer else None
        blocks.append(-1 if call is None else calls.setdefault(call, len(calls)))
    return Parts(purposes, spans, births, deaths, blocks, rehearsal.element_bytes)


def _refined(parts: Parts, number: int) -> Purpose:
    """The purpose, with activations that live within one phase, or are not made in forward, as temporaries."""
    purpose = parts.purposes[number]
    if purpose is not Purpose.ACTIVATION:
        return purpose
    birth, death = parts.span_at(parts.births[number]), parts.span_at(parts.deaths[number])
    is_made_in_forward = birth >= 0 and parts.spans[birth].phase is Phase.FORWARD
    return Purpose.ACTIVATION if is_made_in_forward and death != birth else Purpose.TEMPORARY


def parts_of_step(step: Step, operations: Operations) -> Parts | None:
    """The parts of a recorded trace; None where it has no forward phase."""
    if not any(run.phase is Phase.FORWARD for run in step.phases):
        return None
    births, deaths = lifetimes(operations)
    timeline, kinds = step.timeline, step.naming.kinds
    before = {
        address: block
        for block, (birth, address) in enumerate(zip(timeline.births, timeline.addresses, strict=True))
        if birth == BEFORE
    }
    blocks_of = [
        timeline.blocks[operations.events[birth]] if birth >= 0 else before.get(address, -1)
        for birth, address in zip(births, operations.addresses, strict=True)
    ]
    purposes = tuple(
        _KINDS[kinds[block]] if block >= 0 and _is_freed_at_once(operations, death) else Purpose.OTHER
        for block, death in zip(blocks_of, deaths, strict=True)
    )
    stacks = [
        timeline.trace.stack_table[timeline.stacks[block]] if block >= 0 and timeline.stacks[block] >= 0 else ()
        for block in blocks_of
    ]
    return Parts(
        purposes,
        _spans(step, operations),
        births,
        deaths,
        _layers(operations, purposes, stacks),
        _element_bytes(step, operations, blocks_of),
        _states(step, operations, blocks_of),
    )


_KINDS = tuple(Purpose)


def _is_freed_at_once(operations: Operations, death: int) -> bool:
    """Whether a free did not wait for another stream; a free that did cannot be moved. True without a free."""
    return death == FOREVER or operations.kinds[death] == Kind.FREE


def _spans(step: Step, operations: Operations) -> tuple[Span, ...]:
    """The phases, whose bounds are events, as places of operations."""
    return tuple(
        Span(run.phase, bisect_left(operations.events, run.first), bisect_left(operations.events, run.end))
        for run in step.phases
    )


def _states(step: Step, operations: Operations, blocks_of: Sequence[int]) -> tuple[int, ...]:
    """Optimizer states in the order of their parameters' addresses: the optimizer goes through parameters as made."""
    owners = [step.naming.owners.get(block) for block in blocks_of]
    parameters = {
        str(owner.name): operations.addresses[number]
        for number, owner in enumerate(owners)
        if owner is not None and owner.category in WEIGHTS
    }
    made: list[tuple[int, str, int]] = []
    for number, owner in enumerate(owners):
        if owner is not None and owner.category is Category.OPTIMIZER_STATE:
            state = owner.name.state
            made.append((parameters.get(state.parameter, operations.addresses[number]), state.slot, number))
    return tuple(number for _, _, number in sorted(made))


_ELEMENT_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


def _element_bytes(step: Step, operations: Operations, blocks_of: Sequence[int]) -> bytes:
    """The element size as the look says; for others that of the parameters, unless autocast seems to halve copies."""
    owners = [step.naming.owners.get(block) for block in blocks_of]
    is_own = [owner is not None and owner.category in WEIGHTS for owner in owners]
    own = {number: owner.dtype for number, owner in enumerate(owners) if owner is not None and is_own[number]}
    sizes = operations.sizes_bytes
    there = set(sizes)
    large = [sizes[number] for number in own if sizes[number] >= AUTOCAST_BYTES]
    is_cast = bool(large) and all(size // 2 in there for size in large)
    types = set(own.values())
    unknown = _ELEMENT_BYTES.get(types.pop(), 0) if len(types) == 1 and not is_cast else 0
    return bytes(_ELEMENT_BYTES.get(owner.dtype, 0) if owner is not None else unknown for owner in owners)


def _layers(operations: Operations, purposes: Sequence[Purpose], stacks: Sequence[tuple[CallSite, ...]]) -> array[int]:
    """The layer call of each activation: of the line whose calls, each checkpointed by itself, would save most."""
    saved = [number for number, purpose in enumerate(purposes) if purpose is Purpose.ACTIVATION and stacks[number]]
    lines = {frame for number in saved for frame in stacks[number][1:]}
    best, most = array("q", [-1]) * len(purposes), 0
    for line in lines:
        blocks = _calls_by(line, saved, stacks, len(purposes))
        sums: dict[int, int] = {}
        for number in saved:
            if blocks[number] >= 0:
                sums[blocks[number]] = sums.get(blocks[number], 0) + operations.sizes_bytes[number]
        gain = sum(sums.values()) - max(sums.values(), default=0)
        if len(sums) > 1 and gain > most:
            best, most = blocks, gain
    return best


def _calls_by(line: CallSite, saved: Sequence[int], stacks: Sequence[tuple[CallSite, ...]], count: int) -> array[int]:
    """Number the calls that a line made: a new call begins with another function, or where its lines go backward."""
    blocks = array("q", [-1]) * count
    call, last = -1, None
    for number in saved:
        stack = stacks[number]
        if line not in stack:
            last = None
            continue
        outer = len(stack) - 1 - stack[::-1].index(line)
        called = next((frame for frame in reversed(stack[:outer]) if TORCH not in frame.file), None)
        if called is None:
            continue
        is_next = last is not None and (called.file, called.function) == (last.file, last.function)
        if not is_next or (last is not None and called.line < last.line):
            call += 1
        last = called
        blocks[number] = call
    return blocks
