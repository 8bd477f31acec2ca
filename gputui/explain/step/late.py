"""What was alive at the peak of a step although the step had no more use for it."""

from __future__ import annotations

from dataclasses import dataclass

from gputui.explain.step.kinds import Kind
from gputui.explain.step.phases import Phase
from gputui.explain.step.step import Step
from gputui.units import MIB, format_bytes

WORTH_NAMING_BYTES = MIB
_NEEDED_LATER = (Kind.PARAMETER, Kind.BUFFER, Kind.OPTIMIZER_STATE)
_GRADIENTS = "gradients of the step before: call optimizer.zero_grad() right after optimizer.step()"
_VARIABLE = "from the step before: a variable keeps it until it is assigned again, so `del` it after its last use"
_AFTER_BACKWARD = "from the forward pass, and kept through the optimizer: `del` it after the backward pass"


@dataclass(frozen=True, slots=True)
class Late:
    """Blocks of one name that lived longer than the step needed them; `reason` is why, with what to change."""

    name: str
    reason: str
    bytes: int
    count: int

    @property
    def words(self) -> str:
        """As a sentence."""
        return f"{format_bytes(self.bytes)} of {self.name}, {self.reason}."


def late_at_peak(step: Step) -> list[Late]:
    """The largest first. Only blocks that are born and freed in the trace are named, and only in a whole step."""
    if not step.is_whole:
        return []
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for block in step.timeline.alive_at(step.peak):
        reason = _reason(step, block)
        if reason:
            name = "gradients" if reason == _GRADIENTS else step.name_of(block)
            size_bytes, count = sums.get((name, reason), (0, 0))
            sums[name, reason] = size_bytes + step.timeline.sizes_bytes[block], count + 1
    late = [Late(name, reason, size_bytes, count) for (name, reason), (size_bytes, count) in sums.items()]
    return sorted((one for one in late if one.bytes >= WORTH_NAMING_BYTES), key=lambda one: -one.bytes)


def _reason(step: Step, block: int) -> str:
    timeline, kind = step.timeline, step.kind_of(block)
    birth, death = timeline.births[block], timeline.deaths[block]
    if kind in _NEEDED_LATER or birth < 0 or death == len(timeline):
        return ""
    is_of_step_before = birth < step.first
    if is_of_step_before and kind is Kind.GRADIENT:
        return _GRADIENTS if step.phase_at(step.peak) is Phase.FORWARD else ""
    if is_of_step_before and step.phase_at(birth) is Phase.FORWARD:
        return _VARIABLE
    is_in_optimizer = step.phase_at(step.peak) is Phase.OPTIMIZER
    return _AFTER_BACKWARD if is_in_optimizer and step.phase_at(birth) is Phase.FORWARD else ""
