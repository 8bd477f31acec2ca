"""A recorded step: its timeline with phases and names, its peak, and which blocks are alive at an event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from gputui.explain.owners.owners import owners_of
from gputui.explain.owners.tensor_paths import module_of
from gputui.explain.step.kinds import KINDS, Kind, Naming
from gputui.explain.step.periods import steps_of
from gputui.explain.step.phases import TORCH, Phase, PhaseRun, phases_of
from gputui.explain.step.timeline import BEFORE, Timeline, timeline_of
from gputui.model.attached.allocator import CallSite
from gputui.model.attached.target import Look
from gputui.model.attached.trace import ALLOC, OUT_OF_MEMORY, Trace

FROM_BEFORE = "from before the recording"
NO_LINE = {
    Phase.BACKWARD: "backward (no Python line)",
    Phase.FORWARD: "forward (no Python line)",
    Phase.OPTIMIZER: "optimizer (no Python line)",
    Phase.UNKNOWN: "no Python line was recorded",
}


class Grouping(str, Enum):
    """By what the blocks that are alive are grouped."""

    LINE = "line"
    MODULE = "module"
    SIZE = "size"
    """Each block is a group of its own."""
    KIND = "kind"


@dataclass(frozen=True, slots=True)
class Holders:
    """The blocks of one group that are alive at an event.

    `first_birth` is the event of the earliest birth, `BEFORE` if that was before the trace; `last_death` that of the
    latest death, the number of events if a block outlives the trace.
    """

    name: str
    kind: Kind
    count: int
    bytes: int
    first_birth: int
    last_death: int


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a trace: the events [`first`, `end`). By default the last of `steps`, the whole steps in the trace.

    Without whole steps it is the whole trace. Where the trace ends with a request that failed, it is the step of that
    request, which `is_unfinished`. `peak` is the event after which most is allocated.
    """

    timeline: Timeline
    phases: tuple[PhaseRun, ...]
    steps: tuple[tuple[int, int], ...]
    naming: Naming
    first: int
    end: int
    peak: int
    is_unfinished: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether the events are one whole step, and not the whole trace or an unfinished step."""
        return (self.first, self.end) in self.steps

    @property
    def duration_s(self) -> float:
        """How long the step took, 0.0 if the trace has no times."""
        times = self.timeline.trace.times_us
        return (times[self.end - 1] - times[self.first]) / 1e6 if self.end > self.first else 0.0

    def phase_at(self, event: int) -> Phase:
        """The phase at an event."""
        return self.naming.phase_at(event)

    def phases_within(self) -> list[PhaseRun]:
        """The phases that overlap the step, cut to its events."""
        return [
            PhaseRun(run.phase, max(run.first, self.first), min(run.end, self.end))
            for run in self.phases
            if run.first < self.end and run.end > self.first
        ]

    def span_words(self, group: Holders) -> str:
        """A group's first birth and last death, as numbers of events in the step: "12 - 340", "before - stays"."""
        came = "before" if group.first_birth < self.first else f"{group.first_birth - self.first + 1}"
        if group.last_death == len(self.timeline):
            return f"{came} - stays"
        return f"{came} - {'later' if group.last_death >= self.end else group.last_death - self.first + 1}"

    def line_of(self, block: int) -> CallSite | None:
        """The line that requested a block: the innermost frame outside PyTorch; None without a stack."""
        stack = self.timeline.stacks[block]
        return line_of_stack(self.timeline.trace.stack_table[stack]) if stack >= 0 else None

    def name_of(self, block: int) -> str:
        """The name of a block: its owner's, or else the line that requested it."""
        owner = self.naming.owners.get(block)
        if owner is not None and owner.name:
            return owner.name
        line = self.line_of(block)
        birth = self.timeline.births[block]
        return line.words if line else (FROM_BEFORE if birth == BEFORE else NO_LINE[self.phase_at(birth)])

    def module_of(self, block: int) -> str:
        """The module that a block belongs to, or else the line that requested it."""
        owner = self.naming.owners.get(block)
        return (module_of(owner) if owner else "") or self._line_words(block)

    def kind_of(self, block: int) -> Kind:
        """What a block is for."""
        return KINDS[self.naming.kinds[block]]

    @property
    def kinds(self) -> list[Kind]:
        """The kinds that occur in the trace."""
        return [KINDS[place] for place in sorted(set(self.naming.kinds))]

    def bytes_by_kind(self, event: int) -> dict[Kind, int]:
        """The bytes alive after an event by kind, without kinds of 0 bytes; they add up to the allocated bytes."""
        sums: Counter[int] = Counter()
        for block in self.timeline.alive_at(event):
            sums[self.naming.kinds[block]] += self.timeline.sizes_bytes[block]
        return {kind: sums[place] for place, kind in enumerate(KINDS) if sums[place]}

    def holders(self, event: int, grouping: Grouping) -> list[Holders]:
        """The blocks that are alive after an event, in groups, the largest first."""
        timeline, key_of = self.timeline, self._key(grouping)
        groups: dict[tuple[str, Kind], list[int]] = {}
        for block in timeline.alive_at(event):
            groups.setdefault(key_of(block), []).append(block)
        holders = [self._holders(name.partition("\0")[0], kind, blocks) for (name, kind), blocks in groups.items()]
        return sorted(holders, key=lambda group: (-group.bytes, group.name))

    def rises(self, count: int = 20) -> list[int]:
        """The events of the step's largest allocations, the largest first."""
        timeline = self.timeline
        births = [event for event in range(self.first, self.end) if timeline.trace.actions[event] == ALLOC]
        return sorted(births, key=lambda event: (-timeline.sizes_bytes[timeline.blocks[event]], event))[:count]

    def _holders(self, name: str, kind: Kind, blocks: Sequence[int]) -> Holders:
        timeline = self.timeline
        births = [timeline.births[block] for block in blocks]
        deaths = [timeline.deaths[block] for block in blocks]
        size_bytes = sum(timeline.sizes_bytes[block] for block in blocks)
        return Holders(name, kind, len(blocks), size_bytes, min(births), max(deaths))

    def _key(self, grouping: Grouping) -> Callable[[int], tuple[str, Kind]]:
        if grouping is Grouping.MODULE:
            return lambda block: (self.module_of(block), self.kind_of(block))
        if grouping is Grouping.SIZE:
            return lambda block: (f"{self.name_of(block)}\0{block}", self.kind_of(block))
        if grouping is Grouping.KIND:
            return lambda block: ("", self.kind_of(block))
        return lambda block: (self._line_words(block), self.kind_of(block))

    def _line_words(self, block: int) -> str:
        line = self.line_of(block)
        if line is not None:
            return line.words
        birth = self.timeline.births[block]
        return FROM_BEFORE if birth == BEFORE else NO_LINE[self.phase_at(birth)]


def step_of(trace: Trace, look: Look) -> Step | None:
    """The step of a trace that ends at the moment of a look; None if there is no map or no event."""
    if look.map is None or not len(trace):
        return None
    timeline = timeline_of(trace, look.map)
    phases = phases_of(timeline)
    steps = steps_of(timeline, phases)
    naming = Naming(timeline, phases, steps, owners_of(look.map, look.inventory, trace.device))
    first, end = steps[-1] if steps else (0, len(timeline))
    begin = _begin_of_failed(trace, phases, steps)
    if begin > 0:
        first, end = begin, len(timeline)
    return Step(timeline, phases, steps, naming, first, end, timeline.peak(first, end), begin > 0)


def _begin_of_failed(trace: Trace, phases: Sequence[PhaseRun], steps: Sequence[tuple[int, int]]) -> int:
    """The first event of the step in which the trace's last request failed; 0 if it was met, or no step precedes it."""
    failed = trace.actions.rfind(OUT_OF_MEMORY)
    if failed <= trace.actions.rfind(ALLOC):
        return 0
    ends = [run.end for run in phases if run.phase is Phase.OPTIMIZER and run.end <= failed]
    return max(ends or (end for _, end in steps if end <= failed), default=0)


def line_of_stack(stack: Sequence[CallSite]) -> CallSite | None:
    """The innermost line outside PyTorch, or else the innermost of all; None for an empty stack."""
    return next((frame for frame in stack if TORCH not in frame.file), stack[0] if stack else None)
