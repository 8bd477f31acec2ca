"""What the blocks of a trace are for: from the look at its end, or else from the phases in which they come and go."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum

from gputui.explain.owners.owners import UNATTRIBUTED
from gputui.explain.step.phases import Phase, PhaseRun
from gputui.explain.step.timeline import BEFORE, Timeline
from gputui.model.attached.analysis import Owner
from gputui.model.attached.tensors import WEIGHTS, Category
from gputui.model.attached.trace import ALLOC


class Kind(str, Enum):
    """What a block is for. The values are those of `Category`, and "temporary"."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    OPTIMIZER_STATE = "optimizer_state"
    GRADIENT = "gradient"
    ACTIVATION = "activation"
    TEMPORARY = "temporary"
    """Allocated and freed in the same phase."""
    OTHER = "other"

    @property
    def words(self) -> str:
        """The plural, for sentences: "optimizer states"."""
        return _PLURALS.get(self, f"{self.value.replace('_', ' ')}s")


_PLURALS = {Kind.TEMPORARY: "temporaries", Kind.OTHER: "other"}
KINDS = tuple(Kind)
KIND_OF = {category: kind for category in Category for kind in KINDS[:-1] if kind.value == category.value}
KIND_OF |= dict.fromkeys(WEIGHTS, Kind.PARAMETER)
"""Without "other": of such blocks the phases say more."""

_BY_PHASES = {
    (Phase.FORWARD, Phase.FORWARD): Kind.TEMPORARY,
    (Phase.FORWARD, Phase.BACKWARD): Kind.ACTIVATION,
    (Phase.FORWARD, Phase.OPTIMIZER): Kind.ACTIVATION,
    (Phase.BACKWARD, Phase.BACKWARD): Kind.TEMPORARY,
    (Phase.BACKWARD, Phase.OPTIMIZER): Kind.GRADIENT,
    (Phase.BACKWARD, Phase.FORWARD): Kind.GRADIENT,
    (Phase.OPTIMIZER, Phase.OPTIMIZER): Kind.TEMPORARY,
    (Phase.OPTIMIZER, Phase.FORWARD): Kind.TEMPORARY,
    (Phase.UNKNOWN, Phase.UNKNOWN): Kind.TEMPORARY,
}
"""By the phases of birth and death, for blocks that are allocated and freed within a step."""
_BORN_TO_STAY = {
    Phase.FORWARD: Kind.ACTIVATION,
    Phase.BACKWARD: Kind.GRADIENT,
    Phase.OPTIMIZER: Kind.OPTIMIZER_STATE,
}
"""By the phase of birth, for blocks that outlive the trace and that the look has no name for."""


class Naming:
    """The owner and the kind of each block; blocks are numbered as in the timeline."""

    def __init__(
        self,
        timeline: Timeline,
        phases: Sequence[PhaseRun],
        steps: Sequence[tuple[int, int]],
        owners: Mapping[int, Owner],
    ) -> None:
        """`owners` are those of the look at the end of the trace, by address."""
        self._timeline = timeline
        self._phases = phases
        self._firsts = [run.first for run in phases]
        self._last_births = [self._last_birth(run) for run in phases]
        self._has_backward = any(run.phase is Phase.BACKWARD for run in phases)
        self.owners: dict[int, Owner] = {}
        """By block, for blocks that are alive at the end and their counterparts in earlier steps."""
        end = len(timeline)
        for block, (death, address) in enumerate(zip(timeline.deaths, timeline.addresses, strict=True)):
            if death == end and owners.get(address, UNATTRIBUTED) is not UNATTRIBUTED:
                self.owners[block] = owners[address]
        self._name_counterparts(steps)
        self.kinds = bytes(KINDS.index(self._kind(block)) for block in range(len(timeline.births)))
        """By block, as indices in `KINDS`."""

    def _name_counterparts(self, steps: Sequence[tuple[int, int]]) -> None:
        """Name blocks like their counterparts in other steps: the nth request of the same size by the same stack.

        Only gradients and activations have counterparts: parameters and optimizer states stay.
        """
        timeline = self._timeline
        requested = timeline.trace.sizes_bytes
        starts = [first for first, _ in steps] + [end for _, end in steps[-1:]]
        counts: Counter[tuple[int, int, int]] = Counter()
        places: dict[tuple[int, int, int], list[int]] = {}
        for event, block in enumerate(timeline.blocks):
            if block < 0 or timeline.births[block] != event:
                continue
            step = bisect_right(starts, event)
            asked = (step, requested[event], timeline.stacks[block])
            counts[asked] += 1
            places.setdefault((requested[event], timeline.stacks[block], counts[asked]), []).append(block)
        for blocks in places.values():
            owner = next((self.owners[block] for block in reversed(blocks) if block in self.owners), None)
            if owner is not None and owner.category in (Category.GRADIENT, Category.ACTIVATION):
                for block in blocks:
                    self.owners.setdefault(block, owner)

    def _kind(self, block: int) -> Kind:
        birth, death = self._timeline.births[block], self._timeline.deaths[block]
        owner = self.owners.get(block)
        kind = KIND_OF.get(owner.category) if owner else None
        if kind is not None:
            return kind
        if birth == BEFORE:
            return Kind.OTHER if death == len(self._timeline) else self._kind_of_leaving(death)
        if death == len(self._timeline):
            return Kind.TEMPORARY if self._is_in_optimizer_at_end(birth) else self._staying(self.phase_at(birth))
        born, died = self.phase_at(birth), self.phase_at(death)
        is_within = self._run_at(birth) == self._run_at(death)
        if is_within and self._is_left_by_optimizer(birth, death):
            return Kind.GRADIENT
        if born is died and not is_within:  # it lives into the next step
            return self._staying(born)
        return _BY_PHASES.get((born, died), Kind.OTHER)

    def _staying(self, born: Phase) -> Kind:
        """The kind of a block that outlives its step; in inference, blocks of forward are no saved activations."""
        is_of_inference = born is Phase.FORWARD and not self._has_backward
        return Kind.OTHER if is_of_inference else _BORN_TO_STAY.get(born, Kind.OTHER)

    def _is_in_optimizer_at_end(self, birth: int) -> bool:
        """Whether the trace ends in the optimizer phase of a block's birth: a state would have a name from the look."""
        is_last = self._run_at(birth) == len(self._phases) - 1
        return is_last and self.phase_at(birth) is Phase.OPTIMIZER and bool(self.owners)

    def _last_birth(self, run: PhaseRun) -> int:
        actions = self._timeline.trace.actions
        return next((event for event in range(run.end - 1, run.first - 1, -1) if actions[event] == ALLOC), run.first)

    def _is_left_by_optimizer(self, birth: int, death: int) -> bool:
        """Whether a block of a backward phase is freed after the phase's last allocation, and forward follows.

        An optimizer that works in place allocates nothing, so what `zero_grad` frees seems to be freed in backward.
        """
        place = self._run_at(birth)
        following = self._phases[place + 1].phase if place + 1 < len(self._phases) else Phase.UNKNOWN
        is_late = death > self._last_births[place]
        return is_late and self._phases[place].phase is Phase.BACKWARD and following is Phase.FORWARD

    def _kind_of_leaving(self, death: int) -> Kind:
        """The kind of a block from before the trace that is freed in it."""
        phase = self.phase_at(death)
        return Kind.ACTIVATION if phase is Phase.BACKWARD else Kind.OTHER

    def phase_at(self, event: int) -> Phase:
        """The phase at an event."""
        return self._phases[self._run_at(event)].phase

    def _run_at(self, event: int) -> int:
        return max(0, bisect_right(self._firsts, event) - 1)
