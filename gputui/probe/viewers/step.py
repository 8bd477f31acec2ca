"""Records a step: the allocator's events over some seconds, read in one stop together with a look at the same moment.

PyTorch keeps the events in a ring of bounded length, so what one stop has to read is bounded too. A trial tells how
long the ring may be: the first events are read at once and timed, as that time differs by a factor of ten between
machines, and between a quiet and a busy one. After that, the probe reads only counters. They tell when whole steps have
passed: the program comes back to the same numbers of live blocks and bytes after the same number of events.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

from gputui.probe.allocator.emptied import places_within
from gputui.probe.guards.originals import perf_counter
from gputui.probe.looks.stops import empty_look, undisturbed
from gputui.probe.main_thread import process
from gputui.probe.main_thread.calls import MainThread, MainThreadCall
from gputui.probe.pace.meter import Meter
from gputui.probe.viewers.actions import (
    RECORD_STEP,
    ActionRequest,
    counters,
    forbidden,
    main_thread_did_not_come,
    nothing_done,
    or_failure,
)
from gputui.probe.viewers.ring import MAX_EVENTS, STOP_S, ring_length

TRIAL_EVENTS = 1_000
TRIAL_AFTER_S = 1.0
"""The trial is made after so many events or, if the program makes fewer, after this time."""
POLL_S = 0.05
"""How long to wait between two reads of the counters, which take about 10 us for each device."""
BEFORE_S = 1.0
"""How long to count events before the recording begins, which tells what the recording costs."""
AT_LEAST_S = 4.0
"""How long to record at least, unless the ring is full: a step may consist of several passes that look alike."""
AT_MOST_S = 30.0
READ_SHARE = 0.6
"""The largest part of `STOP_S` that reading the tensors may take."""
NEAR_PEAK = 0.9
"""The recording ends when this share of its highest memory is allocated, so that the look finds names for the peak."""
PEAK_POLL_S = 0.004
PEAK_WAIT_S = 3.0
"""How often to read the counters while waiting for such a moment, and for how long."""
SAME_STATES = 3
"""How often the same counters must have been seen, the last two intervals having equally many events."""

_INTERRUPTED = "A signal handler of the program interrupted the recording."
_SILENT = "The program allocated and freed no GPU memory for {:.0f} s, so there is no step to show."
_GAVE_WAY = "The program began to record its memory history itself, so gputui stopped."


class StepRecorder:
    """Records one step at a time. `_Recording.advance` runs in the main thread, everything else in the probe's."""

    def __init__(self, main_thread: MainThread) -> None:
        self._call: MainThreadCall[dict[str, Any]] = MainThreadCall(main_thread)
        self._step: _Recording | None = None
        self._wait_s = 0.0
        self._next_at = 0.0

    @property
    def is_under_way(self) -> bool:
        """Whether a step is being recorded."""
        return self._step is not None

    @property
    def deadline(self) -> float | None:
        """When (`perf_counter`) to ask `finished` again at the latest, None if nothing is recorded."""
        if self._step is None:
            return None
        return self._next_at if self._call.deadline is None else self._call.deadline

    def begin(self, request: ActionRequest) -> None:
        """Begin to record."""
        torch = process.loaded_torch()
        if torch is not None:  # imported here, so that the main thread does not have to wait for imports
            from gputui.probe.allocator import memory_history  # noqa: F401
            from gputui.probe.looks import torch_reader  # noqa: F401
        self._step, self._wait_s = _Recording(torch), request.wait_s
        reason = forbidden()
        if reason:
            self._call.settle(nothing_done(RECORD_STEP, reason))
        else:
            self._ask()

    def finished(self) -> tuple[dict[str, Any], dict[str, Any] | None] | None:
        """Once it is over: the fields of `model.attached.target.ActionResult`, and of the step (None if it failed)."""
        step = self._step
        if step is None:
            return None
        if not self._call.is_under_way:
            if perf_counter() >= self._next_at:
                self._ask()
            return None
        answer = self._call.finished(
            lambda: main_thread_did_not_come(RECORD_STEP, self._wait_s, "no step was recorded")
        )
        if answer is None:
            return None
        if "reason" not in answer:
            self._next_at = perf_counter() + step.poll_s
            return None
        self._step = None
        if answer["reason"]:
            _switch_off()
            return answer, None
        return answer, step.described()

    def leave(self) -> None:
        """The viewer that asked for it has gone: end the recording."""
        self._call.leave()
        if self._step is not None:
            self._step.is_dropped = True  # the main thread may be about to switch it on
            self._step = None
            _switch_off()

    def _ask(self) -> None:
        assert self._step is not None
        self._call.begin(self._step.advance, self._wait_s, _failed)


class _Recording:
    """One recording. `advance` is called again and again in the main thread, until its answer has a `reason`.

    `_before` and `_during` list each read of the counters as (`perf_counter`, number of events so far).
    """

    def __init__(self, torch: ModuleType | None) -> None:
        self._torch = torch
        self._began_at = perf_counter()
        self._before: list[tuple[float, int]] = []
        self._during: list[tuple[float, int]] = []
        self._generations: dict[tuple[int, ...], list[int]] = {}
        self._switch_ms = 0.0
        self._look: dict[str, Any] | None = None
        self._enough_at = 0.0
        self._most_bytes = 0
        self._max_events = 0
        """The length of the ring in events, 0 before the trial."""
        self.poll_s = POLL_S
        self.is_dropped = False

    def advance(self) -> dict[str, Any]:
        """Read the counters; once it is time for that, switch the recording on, or read it and end it."""
        try:
            return or_failure(self._advance, partial(nothing_done, RECORD_STEP))
        finally:
            if self.is_dropped:
                _switch_off()

    def _advance(self) -> dict[str, Any]:
        torch = self._torch
        if torch is None or not process.has_cuda(torch):
            return nothing_done(RECORD_STEP, "The program has not initialised CUDA yet, so there is no step to record.")
        devices = counters(torch)
        now = perf_counter(), sum(device["generation"] for device in devices)
        if not self._during:
            self._before.append(now)
            return self._switch_on(torch) if now[0] - self._began_at >= BEFORE_S else {}
        if _recorder(torch) != "probe":
            return nothing_done(RECORD_STEP, _GAVE_WAY)
        self._during.append(now)
        if not self._max_events:
            return self._try(torch)
        return self._read(torch) if self._is_time(devices) else {}

    def _is_time(self, devices: list[dict[str, Any]]) -> bool:
        """Whether it is time to read the trace."""
        allocated = sum(device["allocated_bytes"] for device in devices)
        self._most_bytes = max(self._most_bytes, allocated)
        return (self._enough_at > 0.0 or self._is_enough(devices)) and self._is_near_peak(allocated)

    def _switch_on(self, torch: ModuleType) -> dict[str, Any]:
        from gputui.probe.allocator.memory_history import memory_history

        began = perf_counter()
        reason = memory_history.begin_trace(torch, MAX_EVENTS)
        self._switch_ms = (perf_counter() - began) * 1000
        self._during = [(perf_counter(), self._before[-1][1])]
        return nothing_done(RECORD_STEP, reason) if reason else {}

    def _try(self, torch: ModuleType) -> dict[str, Any]:
        """Read the first events; begin again with a shorter ring if reading a full one would take too long."""
        from gputui.probe.allocator import allocator
        from gputui.probe.allocator.memory_history import memory_history

        (began_at, first), (now, generation) = self._during[0], self._during[-1]
        if generation - first < TRIAL_EVENTS and (generation == first or now - began_at < TRIAL_AFTER_S):
            return nothing_done(RECORD_STEP, _SILENT.format(AT_MOST_S)) if now - began_at >= AT_MOST_S else {}
        began = perf_counter()
        counts = [len(events) for events in allocator.traces(torch) if events]
        took_s = perf_counter() - began
        self._max_events = ring_length(self._switch_ms / 1000, took_s, counts)
        if self._max_events < MAX_EVENTS:
            memory_history.restart_trace(torch, self._max_events)
            self._during = [(perf_counter(), generation)]
        self._switch_ms = max(self._switch_ms, (perf_counter() - began) * 1000)
        return {}

    def _is_enough(self, devices: list[dict[str, Any]]) -> bool:
        """Whether the ring is full, whole steps have passed, or the recording has taken `AT_MOST_S`."""
        (began_at, first), (now, generation) = self._during[0], self._during[-1]
        state = tuple(device[name] for device in devices for name in ("allocated_bytes", "requested_bytes", "blocks"))
        seen = self._generations.setdefault(state, [])
        if generation - first >= self._max_events or now - began_at >= AT_MOST_S:
            return True
        if seen[-1:] != [generation]:
            seen.append(generation)
        *_, older, old, new = [0, 0, 0, *seen]
        repeats = len(seen) >= SAME_STATES and new - old == old - older
        return repeats and now - began_at >= AT_LEAST_S

    def _is_near_peak(self, allocated_bytes: int) -> bool:
        """Whether `NEAR_PEAK` of the recording's highest memory is allocated, or the wait for that is over."""
        now = self._during[-1][0]
        self._enough_at, self.poll_s = self._enough_at or now, PEAK_POLL_S
        return allocated_bytes >= NEAR_PEAK * self._most_bytes or now - self._enough_at > PEAK_WAIT_S

    def _read(self, torch: ModuleType) -> dict[str, Any]:
        """The one stop: read trace and map, then tensors as far as there is time, and switch the history off."""
        if self._during[-1][1] == self._during[0][1]:
            return nothing_done(RECORD_STEP, _SILENT.format(AT_MOST_S))
        answer = nothing_done(RECORD_STEP, "")
        began = perf_counter()
        look = empty_look([])
        look["cost"] = undisturbed(lambda: _take(torch, look, began), STOP_S * 1000)
        self._look = look
        answer["took_s"] = self._during[-1][0] - self._during[0][0]
        look["cost"]["pause_ms"] = (perf_counter() - began) * 1000
        return answer

    def described(self) -> dict[str, Any]:
        """The recorded step as it is sent; called in the probe's thread."""
        from gputui.probe.allocator.trace_columns import describe_traces
        from gputui.probe.looks.torch_reader import torch_reader

        look = self._look
        assert look is not None
        traces = look["map"].traces if look["map"] is not None else []
        calls = places_within(traces, look.pop("calls"))
        torch_reader.describe(look)
        cost = {
            "before_s": self._before[-1][0] - self._before[0][0],
            "before_events": self._before[-1][1] - self._before[0][1],
            "during_s": self._during[-1][0] - self._during[0][0],
            "during_events": self._during[-1][1] - self._during[0][1],
            "stop_ms": max(look["cost"]["pause_ms"], self._switch_ms),
        }
        return {
            **look,
            "type": "step",
            **describe_traces(traces, calls),
            "recording": cost,
            "max_events": self._max_events,
        }


def _failed(failure: str) -> dict[str, Any]:
    return nothing_done(RECORD_STEP, failure or _INTERRUPTED)


def _take(torch: ModuleType, look: dict[str, Any], began: float) -> None:
    from gputui.probe.allocator.allocator import take_map
    from gputui.probe.allocator.memory_history import memory_history
    from gputui.probe.looks.torch_reader import torch_reader

    look["map"] = raw_map = take_map(torch, torch_reader.pools, may_walk=False, has_traces=True)
    look["calls"] = memory_history.emptied.so_far(torch)
    left_s = min(STOP_S * READ_SHARE, STOP_S * 0.8 - (perf_counter() - began))
    torch_reader.read(torch, "walk", look, Meter(max(left_s, 0.005)), may_walk=False, has_map=False)
    look["map"] = raw_map
    memory_history.end_trace(torch)


def _recorder(torch: ModuleType) -> str:
    from gputui.probe.allocator.memory_history import memory_history

    return memory_history.recorder(torch)


def _switch_off() -> None:
    """Switch the trace off after a recording that failed, or that nobody waits for any more."""
    torch = process.loaded_torch()
    if torch is not None and process.has_cuda(torch):
        from gputui.probe.allocator.memory_history import memory_history

        memory_history.end_trace(torch)
