"""Tells from reads of the last minute how far a step lets allocated memory rise and fall, and how long steps take."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from gputui.probe.guards.originals import perf_counter
from gputui.probe.main_thread.activity import is_in_backward

PART_S, PARTS = 1.0, 60
"""Reads are summed up in parts of a second, and the parts are kept for a minute."""
FRESH_S = 5.0
LEAST_SWING = 0.05
"""Where memory rises and falls by less than this share of its highest, any moment is as good for a look."""
STEPS, STEPS_KEPT = 3, 8
"""How many steps must have been seen, and how many of the last are kept, to tell how often a step requests memory."""
LOW, HIGH, PHASE_READS, GAP_S = 0.2, 0.5, 4, 0.012
"""A step is counted when memory rises from below LOW to above HIGH of its range. No step was missed in between if there
were PHASE_READS reads both low and high, or no two reads were more than GAP_S seconds apart."""


class Range(NamedTuple):
    """What the reads of `seconds` found, in bytes; `reachable` is the highest outside a backward pass.

    `requests` is how often the program requested memory meanwhile.
    """

    lowest: float = float("inf")
    highest: int = 0
    reachable: int = 0
    requests: int = 0
    seconds: float = 0.0

    def with_other(self, other: Range) -> Range:
        """What the reads of both have found."""
        extremes = max(self.highest, other.highest), max(self.reachable, other.reachable)
        sums = self.requests + other.requests, self.seconds + other.seconds
        return Range(min(self.lowest, other.lowest), *extremes, *sums)

    @property
    def is_wide(self) -> bool:
        """Whether memory rises and falls so far that it matters when a look is taken."""
        return self.highest - self.lowest > LEAST_SWING * self.highest


class DeviceReads:
    """The reads of one device in the last minute."""

    def __init__(self) -> None:
        self._parts: deque[Range] = deque(maxlen=PARTS)
        self._earlier, self._part = Range(), Range()
        self._read_at = self._part_began_at = perf_counter()
        self._requests = 0
        self._is_high = False
        self._risen_at = 0
        """How often memory had been requested at the last rise."""
        self._phase_reads = [0, 0]
        """How many reads since the last rise were low, and how many high."""
        self._gap_s = float("inf")
        """The longest time between two reads since the last rise."""
        self._step_requests: deque[int] = deque(maxlen=STEPS_KEPT)
        """How often each of the last steps requested memory; one may be two steps, where a rise was missed."""
        self.allocated_bytes = 0
        self.rises_by_s = 0.0
        """How fast memory grew between the last two reads, in bytes per second."""

    @property
    def whole(self) -> Range:
        """What all reads of the last minute have found."""
        return self._earlier.with_other(self._part)

    @property
    def is_fresh(self) -> bool:
        """Whether the device was read within `FRESH_S`."""
        return self.whole.seconds > 0.0 and perf_counter() - self._read_at < FRESH_S

    def missing_bytes(self, part: float) -> float:
        """How much more must be allocated to reach this share of the highest outside backward passes."""
        return max(0.0, part * self.whole.reachable - self.allocated_bytes)

    @property
    def has_steps(self) -> bool:
        """Whether enough steps were watched to know how long one takes."""
        return len(self._step_requests) >= STEPS

    @property
    def step_s(self) -> float:
        """How long a step takes; 0.0 if that is not known."""
        requests, whole = min(self._step_requests, default=0), self.whole
        return whole.seconds * requests / whole.requests if whole.requests else 0.0

    def add(self, allocated_bytes: int, requests: int, *, is_held: bool) -> None:
        """Note a read; `requests` is how often the program has requested memory since it started.

        `is_held`: `TopMoments` holds the main thread: a backward pass that its stack shows has not begun yet.
        """
        at = perf_counter()
        passed_s = at - self._read_at
        self.rises_by_s = (allocated_bytes - self.allocated_bytes) / passed_s if passed_s else 0.0
        self.allocated_bytes, self._read_at = allocated_bytes, at
        is_reachable = allocated_bytes > self.whole.reachable and (is_held or not is_in_backward())
        made = requests - self._requests if self._requests else 0
        found = Range(allocated_bytes, allocated_bytes, allocated_bytes * is_reachable, made, passed_s)
        self._requests = requests
        self._part = self._part.with_other(found)
        if at - self._part_began_at > PART_S:
            self._parts.append(self._part)
            self._earlier = Range()
            for part in self._parts:
                self._earlier = self._earlier.with_other(part)
            self._part, self._part_began_at = Range(), at
        self._gap_s = max(self._gap_s, passed_s)
        if self._has_risen():
            if min(self._phase_reads) >= PHASE_READS or self._gap_s <= GAP_S:
                self._step_requests.append(requests - self._risen_at)
            self._risen_at, self._phase_reads, self._gap_s = requests, [0, 0], 0.0
        self._phase_reads[self._is_high] += 1

    def _has_risen(self) -> bool:
        """Whether this read is the first in the upper half of the range after one in the lowest fifth."""
        whole, was_high = self.whole, self._is_high
        bound = whole.lowest + (whole.highest - whole.lowest) * (LOW if was_high else HIGH)
        self._is_high = self.allocated_bytes > bound
        return self._is_high and not was_high and whole.is_wide

    def fields(self, device: int) -> dict[str, Any]:
        """The fields of `model.attached.target.Swing`."""
        whole = self.whole
        return {
            "device": device,
            "lowest_allocated_bytes": int(whole.lowest),
            "highest_allocated_bytes": whole.highest,
            "seconds": whole.seconds,
            "step_s": self.step_s or None,
        }
