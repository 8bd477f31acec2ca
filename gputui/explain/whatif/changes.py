"""Changes of the program, in place of settings: each takes, moves or resizes some operations, and is estimated."""

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
"""An 8-bit state has one byte for each element, and 4 for each so many (bitsandbytes' block-wise quantization)."""
EIGHT_BIT_LEAST = 4096
"""States of fewer elements stay as they are."""
HELD_IN_EVALUATION = 3
"""Without gradients a layer's input, its result and a residual are there at a time."""
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
    """A change of the program. `does` makes it, and returns False where there is nothing to change."""

    name: str
    label: str
    does: Callable[[Edit, Parts], bool]


def changed(operations: Operations, parts: Parts, names: Sequence[str]) -> Operations:
    """The operations with these changes, in the order of the table. Raises UsageError for one that changes nothing."""
    for change in CHANGES:
        if change.name not in names:
            continue
        edit = Edit(operations)
        if not change.does(edit, parts):
            raise _nothing(change)
        operations, moved = edit.result()
        parts = parts.after(operations, moved, edit.origins)
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
    """The names of the changes that would change something, alone and together, by what they cost."""
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
    """What a case with these changes is called."""
    return ", ".join(BY_NAME[name].label for name in names)


def _free_gradients(edit: Edit, parts: Parts) -> bool:
    """Gradients are freed before the next forward pass, and not in or after it."""
    is_changed = False
    for number in parts.of(Purpose.GRADIENT):
        born, death = parts.span_at(parts.births[number]), parts.deaths[number]
        forward = _next(parts.spans, born, Phase.FORWARD)
        if born < 0 or forward is None or not forward.first < death < FOREVER:
            continue
        backward = _next(parts.spans, parts.spans.index(forward), Phase.BACKWARD)
        if backward is None or death <= backward.first:  # else the next backward pass adds to it
            edit.drop(death)
            edit.free_at(forward.first, number)
            is_changed = True
    return _remake_lasting(edit, parts) or is_changed


def _remake_lasting(edit: Edit, parts: Parts) -> bool:
    """Gradients that are never freed (`set_to_none=False`) are made again in each backward pass, the last first."""
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
    """States of the optimizer have a byte for each element, and one scale for each block of elements."""
    is_changed = False
    for number in parts.of(Purpose.OPTIMIZER_STATE):
        elements = edit.size(number) // max(1, parts.element_bytes[number])
        if parts.element_bytes[number] > 1 and elements >= EIGHT_BIT_LEAST:
            edit.resize(number, elements + elements * SINGLE_BYTES // EIGHT_BIT_BLOCK)
            is_changed = True
    return is_changed


def _half_precision(edit: Edit, parts: Parts) -> bool:
    """What is in single precision takes half, if the parameters are."""
    if not any(parts.element_bytes[number] == SINGLE_BYTES for number in parts.of(Purpose.PARAMETER)):
        return False
    for number in parts.of(*HALVED):
        if parts.element_bytes[number] == SINGLE_BYTES and edit.size(number) >= LEAST_HALVED_BYTES:
            edit.resize(number, edit.size(number) // 2)
    return True


def _evaluate(edit: Edit, parts: Parts) -> bool:
    """Forward passes alone: no gradients, no states, and no activation that only backward needs."""
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
    """Free each activation of a forward pass once a few more were made."""
    made = [n for n in parts.of(Purpose.ACTIVATION) if span.first <= parts.births[n] < span.end]
    for number, later in zip(made, made[HELD_IN_EVALUATION:], strict=False):
        if parts.deaths[number] != FOREVER:
            edit.drop(parts.deaths[number])
        edit.free_at(parts.births[later], number)


def _checkpoint(edit: Edit, parts: Parts) -> bool:
    """A layer's activations are freed after its forward pass, and made again before its backward pass."""
    blocks: dict[int, list[int]] = {}
    for number in parts.of(Purpose.ACTIVATION):
        if parts.blocks[number] >= 0 and parts.deaths[number] != FOREVER:
            blocks.setdefault(parts.blocks[number], []).append(number)
    is_changed = False
    for numbers in blocks.values():
        *inner, output = numbers  # the next layer keeps what it is given
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
"""The change after which nothing is trained any more."""
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
"""Changes by what they cost: nothing, precision of the optimizer's states, a second forward pass, precision of all."""


NOTHING_BYTES = 1
"""The size of what is taken away: the smallest block, so that its frees can stay."""


class Edit:
    """Collects changes of operations; places are those of the original."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self._sizes = operations.sizes_bytes[:]
        self._streams, self._addresses = operations.streams[:], operations.addresses[:]
        self._before: defaultdict[int, list[tuple[Kind, int]]] = defaultdict(list)
        self._dropped: set[int] = set()
        self._renumbered: dict[int, int] = {}
        self.origins = list(range(len(operations.sizes_bytes)))
        """For each allocation the one of the original that it is, or that it is made again of."""

    def resize(self, number: int, size_bytes: int) -> None:
        """Give an allocation another size."""
        self._sizes[number] = max(size_bytes, NOTHING_BYTES)

    def size(self, number: int) -> int:
        """The size of an allocation so far."""
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
        """Have the operation at `place` be about another allocation."""
        self._renumbered[place] = number

    def result(self) -> tuple[Operations, list[int]]:
        """The operations with all changes, and where each place of the original is in them."""
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
