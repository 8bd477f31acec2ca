"""The peak of a step on tensors without data: how much is reserved, and what holds it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gputui.explain.step.kinds import Kind as Purpose
from gputui.explain.whatif.ahead import recorded_ahead
from gputui.explain.whatif.allocator.settings import DEFAULTS, Device, with_settings
from gputui.explain.whatif.cases import AS_WRITTEN, answer
from gputui.explain.whatif.replay.recorded import Recorded
from gputui.explain.whatif.replay.replay import Outcome
from gputui.explain.whatif.trace.operations import FOREVER
from gputui.explain.whatif.trace.parts import Parts
from gputui.model.attached.allocator import CallSite
from gputui.model.attached.trace import Rehearsal

_LAYER = re.compile(r"^(?P<list>(?:.*?\.)?)(?P<number>\d+)(?=\.|$)")
"""The first layer of a list in a path: `model.layers.12` of `model.layers.12.mlp.up_proj`."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Memory that is allocated at the peak, for one purpose, in one module, by one operation and line."""

    category: str
    module: str
    operation: str
    line: CallSite | None
    bytes: int
    count: int

    @property
    def layer(self) -> tuple[str, int | None]:
        """The list of layers that the module is in and the layer's number; for a module in no list, itself and None."""
        match = _LAYER.match(self.module)
        return (match["list"].rstrip("."), int(match["number"])) if match else (self.module, None)


@dataclass(frozen=True, slots=True)
class Peak:
    """What a step needs at its peak on unlimited memory; `holders`, the largest first, add up to `allocated_bytes`.

    `phase` is the part of the step with the peak, "" where it is not known. `outcome` is that on a device of the
    budget, where the peak is lower if PyTorch has to empty its cache.
    """

    torch: str
    reserved_bytes: int
    allocated_bytes: int
    phase: str
    holders: tuple[Holder, ...]
    outcome: Outcome
    doubts: tuple[str, ...]

    def bytes_by_category(self) -> dict[str, int]:
        """The bytes of each category, the largest first."""
        sums: Counter[str] = Counter()
        for holder in self.holders:
            sums[holder.category] += holder.bytes
        return dict(sums.most_common())


def recorded_under(rehearsal: Rehearsal, settings: str) -> Recorded:
    """A rehearsed step on a device of unlimited memory, under settings as in PYTORCH_ALLOC_CONF. Raises UsageError."""
    return recorded_ahead(rehearsal, with_settings(DEFAULTS, settings), Device())


def peak_of(rehearsal: Rehearsal, recorded: Recorded, budget_bytes: int | None) -> Peak:
    """The peak of a rehearsed step, with its outcome on a device of `budget_bytes`; None for no budget."""
    endless = outcome = answer(recorded, AS_WRITTEN).outcome
    if budget_bytes is not None and endless.peak_reserved_bytes > budget_bytes:
        outcome = answer(recorded, replace(AS_WRITTEN, device_memory_bytes=budget_bytes)).outcome
    curve = endless.allocated_curve
    place = max(range(len(curve)), key=curve.__getitem__, default=0)
    return Peak(
        rehearsal.torch,
        endless.peak_reserved_bytes,
        endless.peak_allocated_bytes,
        _phase_at(rehearsal, place),
        _with_rounding(_holders(rehearsal, recorded, place), endless.peak_allocated_bytes),
        outcome,
        recorded.doubts,
    )


def _phase_at(rehearsal: Rehearsal, place: int) -> str:
    """The part of the step that an operation is in."""
    return next((name for event, name in reversed(rehearsal.marks) if event <= place), "")


def _holders(rehearsal: Rehearsal, recorded: Recorded, place: int) -> list[Holder]:
    """The holders of the memory that is alive after an operation, by requested bytes."""
    sizes: Counter[tuple[str, str, str, CallSite | None]] = Counter()
    counts: Counter[tuple[str, str, str, CallSite | None]] = Counter()
    for number in _alive(rehearsal.events[: place + 1]):
        category = _category(rehearsal.categories[number], recorded.parts, number)
        key = category, rehearsal.modules[number], rehearsal.operations[number], rehearsal.lines[number]
        sizes[key] += rehearsal.sizes_bytes[number]
        counts[key] += 1
    return [Holder(*key, size_bytes, counts[key]) for key, size_bytes in sizes.items()]


def _alive(events: Sequence[int]) -> list[int]:
    """The numbers of the requests that were made and not freed."""
    alive: dict[int, None] = {}
    for event in events:
        if event >= 0:
            alive[event] = None
        else:
            alive.pop(-1 - event, None)
    return list(alive)


def _category(category: str, parts: Parts | None, number: int) -> str:
    """The category that the rehearsal gave, or "temporary" for a request that lives within one part of the step."""
    if parts is None or parts.purposes[number] not in (Purpose.TEMPORARY, Purpose.OTHER):
        return category
    birth, death = parts.births[number], parts.deaths[number]
    is_temporary = death < FOREVER and parts.span_at(birth) == parts.span_at(death)
    return Purpose.TEMPORARY.value if is_temporary else category


def _with_rounding(holders: list[Holder], allocated_bytes: int) -> tuple[Holder, ...]:
    """The holders, the largest first, with one for the bytes by which PyTorch rounds requests up."""
    rounding = allocated_bytes - sum(holder.bytes for holder in holders)
    if rounding > 0:
        holders.append(Holder("rounding", "", "", None, rounding, 0))
    return tuple(sorted(holders, key=lambda holder: (-holder.bytes, holder.category, holder.module, holder.operation)))
