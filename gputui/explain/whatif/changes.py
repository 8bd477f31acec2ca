"""Changes of the program, such as checkpointing: each is estimated by dropping, moving or resizing operations."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gputui.errors import UsageError, did_you_mean
from gputui.explain.step.kinds import Kind as Purpose
from gputui.explain.step.phases import Phase
from gputui.explain.whatif.trace.operations import FOREVER, Kind, Operations
from gputui.explain.whatif.trace.parts import Parts, Span

SINGLE_BYTES = 4
EIGHT_BIT_BLOCK = 256
"""Elements of a block of an 8-bit state: bitsandbytes keeps a byte for each element and a float for each block."""
EIGHT_BIT_LEAST = 4096
"""bitsandbytes keeps states of fewer elements in single precision."""
HELD_IN_EVALUATION = 3
"""Activations that are alive at a time without gradients: a layer's input, its result and a residual."""
HALVED = (
    Purpose.PARAMETER,
    Purpose.GRADIENT,
    Purpose.OPTIMIZER_STATE,
    Purpose.ACTIVATION,
    Purpose.TEMPORARY,
)
LEAST_HALVED_BYTES = 4096
TRAINING = (Purpose.GRADIENT, Purpose.OPTIMIZER_STATE)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the program. `does` applies it to an `Edit`, and returns False where there is nothing to change."""

    name: str
    label: str
    does: Callable[[Edit, Parts], bool]


def changed(operations: Operations, parts: Parts, names: Sequence[str]) -> Operations:
    """The operations after these changes, applied in the order of `CHANGES`. Raises UsageError if one has no effect."""
    for change in CHANGES:
        if change.name not in names:
            continue
        edit = Edit(operations)
        if not change.does(edit, parts):
            raise _nothing(change)
        operations, moved = edit.result()
        parts = parts.after(operations, moved, edit.origins, edit.element_bytes)
    return operations


def check(operations: Operations, parts: Parts | None, names: Sequence[str]) -> None:
    """Raise UsageError where one of these changes cannot be made."""
    for name in names:
        if parts is None:
            cause = f"The trace does not say what its requests are for, so that gputui cannot tell what {name} gives."
            raise UsageError(cause, "Record a step with `gputui step PID -o FILE`.")
        if not BY_NAME[name].does(Edit(operations), parts):
            raise _nothing(BY_NAME[name])


def _nothing(change: Change) -> UsageError:
    cause = f"There is nothing that {change.name} would change in this program."
    return UsageError(cause)


def cheapest_first(operations: Operations, parts: Parts) -> list[tuple[str, ...]]:
    """The entries of `CHEAPEST_FIRST` whose changes all have an effect on this program."""
    names = {change.name for change in CHANGES if change.does(Edit(operations), parts)}
    return [some for some in CHEAPEST_FIRST if names.issuperset(some)]


def names_of(words: str) -> tuple[str, ...]:
    """The changes in "NAME,NAME". Raises UsageError for an unknown one."""
    names = tuple(word.strip() for word in words.split(","))
    for name in names:
        if name not in BY_NAME:
            cause = f"There is no change {name!r}."
            raise UsageError(cause, did_you_mean(name, BY_NAME) or f"The changes are: {', '.join(BY_NAME)}.")
    return names


def label_of(names: Sequence[str]) -> str:
    """The label of a case with these changes."""
    return ", ".join(BY_NAME[name].label for name in names)


def _free_gradients(edit: Edit, parts: Parts) -> bool:
    """Free gradients before the next forward pass, except those to which the next backward pass adds."""
    is_changed = False
    for number in parts.of(Purpose.GRADIENT):
        born, death = parts.span_at(parts.births[number]), parts.deaths[number]
        forward = _next(parts.spans, born, Phase.FORWARD)
        if born < 0 or forward is None or not forward.first < death < FOREVER:
            continue
        backward = _next(parts.spans, parts.spans.index(forward), Phase.BACKWARD)
        if backward is None or death <= backward.first:
            edit.drop(death)
            edit.free_at(forward.first, number)
            is_changed = True
    return _remake_lasting(edit, parts) or is_changed


def _remake_lasting(edit: Edit, parts: Parts) -> bool:
    """Make gradients that are never freed (`set_to_none=False`) anew in each backward pass, the last gradient first."""
    lasting = [n for n in parts.of(Purpose.GRADIENT) if parts.deaths[n] == FOREVER]
    is_changed = False
    for rank, number in enumerate(reversed(lasting)):
        current = number
        for place, span in enumerate(parts.spans):
            forward, backward = (_next(parts.spans, place, phase) for phase in (Phase.FORWARD, Phase.BACKWARD))
            if span.phase is not Phase.OPTIMIZER or span.first <= parts.births[number] or not (forward and backward):
                continue
            edit.free_at(forward.first, current)
            current = edit.again_at(backward.first + (backward.end - backward.first) * rank // len(lasting), number)
            is_changed = True
    return is_changed


def _next(spans: Sequence[Span], place: int, phase: Phase) -> Span | None:
    return next((span for span in spans[place + 1 :] if span.phase is phase), None)


def _eight_bit_states(edit: Edit, parts: Parts) -> bool:
    """Resize the optimizer's states to a byte for each element, and a scale for each block of elements."""
    is_changed = False
    for number in parts.of(Purpose.OPTIMIZER_STATE):
        elements = edit.size(number) // max(1, parts.element_bytes[number])
        if parts.element_bytes[number] > 1 and elements >= EIGHT_BIT_LEAST:
            edit.resize(number, elements + elements * SINGLE_BYTES // EIGHT_BIT_BLOCK, element_bytes=1)
            is_changed = True
    return is_changed


def _half_precision(edit: Edit, parts: Parts) -> bool:
    """Halve allocations in single precision, if any parameter is in single precision."""
    if not any(parts.element_bytes[number] == SINGLE_BYTES for number in parts.of(Purpose.PARAMETER)):
        return False
    for number in parts.of(*HALVED):
        if parts.element_bytes[number] == SINGLE_BYTES and edit.size(number) >= LEAST_HALVED_BYTES:
            edit.resize(number, edit.size(number) // 2, element_bytes=2)
    return True


def _evaluate(edit: Edit, parts: Parts) -> bool:
    """Keep the forward passes alone: no gradients, no optimizer states, no activations kept for the backward pass."""
    if not any(span.phase is Phase.BACKWARD for span in parts.spans):
        return False
    for number in parts.of(*TRAINING):
        edit.resize(number, NOTHING_BYTES)
    for number, birth in enumerate(parts.births):
        span = parts.spans[parts.span_at(birth)] if birth >= 0 and parts.span_at(birth) >= 0 else None
        if span is not None and span.phase in (Phase.BACKWARD, Phase.OPTIMIZER):
            edit.resize(number, NOTHING_BYTES)
    for span in parts.spans:
        if span.phase is Phase.FORWARD:
            _free_early(edit, parts, span)
    return True


def _free_early(edit: Edit, parts: Parts, span: Span) -> None:
    """Free each activation of a forward pass once `HELD_IN_EVALUATION` more were made."""
    made = [n for n in parts.of(Purpose.ACTIVATION) if span.first <= parts.births[n] < span.end]
    for number, later in zip(made, made[HELD_IN_EVALUATION:], strict=False):
        if parts.deaths[number] != FOREVER:
            edit.drop(parts.deaths[number])
        edit.free_at(parts.births[later], number)


def _checkpoint(edit: Edit, parts: Parts) -> bool:
    """Free a layer's activations after its forward pass, and make them again before its backward pass."""
    blocks: dict[int, list[int]] = {}
    for number in parts.of(Purpose.ACTIVATION):
        if parts.blocks[number] >= 0 and parts.deaths[number] != FOREVER:
            blocks.setdefault(parts.blocks[number], []).append(number)
    is_changed = False
    for numbers in blocks.values():
        *inner, output = numbers  # the output stays: it is the next layer's input
        ends = parts.births[output]
        again = min((parts.deaths[number] for number in inner), default=ends)
        if len(blocks) < 2 or again <= ends:
            continue
        for number in inner:
            edit.free_at(ends + 1, number)
            edit.renumber(parts.deaths[number], edit.again_at(again, number))
        is_changed = True
    return is_changed


EVALUATION = "no-grad"
"""The change after which the program no longer trains."""
CHANGES = (
    Change("set-to-none", "gradients set to None after each step", _free_gradients),
    Change("8-bit-states", "8-bit optimizer states", _eight_bit_states),
    Change("bfloat16", "all in bfloat16", _half_precision),
    Change("checkpointing", "each layer checkpointed", _checkpoint),
    Change(EVALUATION, "evaluation under no_grad", _evaluate),
)
BY_NAME = {change.name: change for change in CHANGES}
CHEAPEST_FIRST = (
    ("set-to-none",),
    ("8-bit-states",),
    ("checkpointing",),
    ("8-bit-states", "checkpointing"),
    ("bfloat16",),
    ("bfloat16", "checkpointing"),
    (EVALUATION,),
)
"""Changes by their cost: none, precision of the optimizer's states, a second forward pass, precision of everything."""


NOTHING_BYTES = 1
"""The size of an allocation that a change removes: the smallest block, so that the operation that frees it can stay."""


class Edit:
    """Collects edits of operations; every `place` is an index into the original operations."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self._sizes = operations.sizes_bytes[:]
        self._streams, self._addresses = operations.streams[:], operations.addresses[:]
        self._before: defaultdict[int, list[tuple[Kind, int]]] = defaultdict(list)
        self._dropped: set[int] = set()
        self._renumbered: dict[int, int] = {}
        self.origins = list(range(len(operations.sizes_bytes)))
        """For each allocation the number of the original one: its own, or that of which it is a copy (`again_at`)."""
        self.element_bytes: dict[int, int] = {}
        """The size of an element of each allocation whose elements were resized."""

    def resize(self, number: int, size_bytes: int, element_bytes: int | None = None) -> None:
        """Give an allocation another size, and (unless None) its elements."""
        self._sizes[number] = max(size_bytes, NOTHING_BYTES)
        if element_bytes is not None:
            self.element_bytes[number] = element_bytes

    def size(self, number: int) -> int:
        """The size of an allocation after the edits so far."""
        return self._sizes[number]

    def free_at(self, place: int, number: int) -> None:
        """Free an allocation before the operation at `place`."""
        self._before[place].append((Kind.FREE, number))

    def drop(self, place: int) -> None:
        """Leave an operation out."""
        self._dropped.add(place)

    def again_at(self, place: int, number: int) -> int:
        """Make an allocation once more before the operation at `place`; returns the number of the new one."""
        self._sizes.append(self._sizes[number])
        self._streams.append(self.operations.streams[number])
        self._addresses.append(0)
        self.origins.append(number)
        new = len(self._sizes) - 1
        self._before[place].append((Kind.MALLOC, new))
        return new

    def renumber(self, place: int, number: int) -> None:
        """Let the operation at `place` act on another allocation."""
        self._renumbered[place] = number

    def result(self) -> tuple[Operations, list[int]]:
        """The edited operations, and for each place of the original its place in them."""
        kinds, numbers, events = bytearray(), array("q"), array("q")
        original, moved = self.operations, []
        count = len(original.kinds)
        for place in range(count + 1):
            event = original.events[min(place, count - 1)] if count else 0
            for kind, number in self._before.get(place, ()):
                kinds.append(kind)
                numbers.append(number)
                events.append(event)
            moved.append(len(kinds))
            if place < count and place not in self._dropped:
                kinds.append(original.kinds[place])
                numbers.append(self._renumbered.get(place, original.numbers[place]))
                events.append(event)
        edited = replace(
            original,
            kinds=bytes(kinds),
            numbers=numbers,
            events=events,
            sizes_bytes=self._sizes,
            streams=self._streams,
            addresses=self._addresses,
        )
        return edited, moved
