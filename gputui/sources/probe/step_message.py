"""A probe's message with a recorded step: a look, and the traces that end at its moment as columns."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from gputui.explain.map_faults import fault_of_traces, without_faulty_map
from gputui.model.allocator import CallSite
from gputui.model.target import Look
from gputui.model.trace import RecordedTraces, RecordingCost, Trace
from gputui.protocol.trace_events import ACTIONS
from gputui.sources.probe.decode import DecodeError, decode

MAX_FRAMES = 1_000_000
"""How many frames all stacks may have together."""


@dataclass(frozen=True, slots=True)
class _Columns:
    device: int
    count: int
    actions: tuple[int, ...]
    addresses: tuple[int, ...]
    sizes_bytes: tuple[int, ...]
    streams: tuple[int, ...]
    times_us: tuple[int, ...]
    stacks: tuple[int, ...]
    empty_cache_calls: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Step:
    traces: tuple[_Columns, ...]
    frames: tuple[CallSite, ...]
    stacks: tuple[tuple[int, ...], ...]
    recording: RecordingCost
    max_events: int


def recorded_traces(message: dict[str, object]) -> RecordedTraces:
    """The traces and the look of a message; raises DecodeError if it is malformed."""
    step, look = decode(_Step, message), without_faulty_map(decode(Look, message))
    if sum(map(len, step.stacks)) > MAX_FRAMES:
        cause = f"more than {MAX_FRAMES} frames"
        raise DecodeError(cause)
    try:
        table = tuple(tuple(step.frames[_natural(number)] for number in stack) for stack in step.stacks)
    except IndexError:
        cause = "a stack with a frame that is not in the table"
        raise DecodeError(cause) from None
    traces = tuple(_trace(columns, table) for columns in step.traces)
    fault = fault_of_traces(traces)
    if fault:
        cause = f"a trace that cannot be: {fault}"
        raise DecodeError(cause)
    return RecordedTraces(traces, look, step.max_events, step.recording)


def _natural(number: int) -> int:
    if number < 0:
        raise IndexError
    return number


def _trace(columns: _Columns, table: tuple[tuple[CallSite, ...], ...]) -> Trace:
    lists = (columns.addresses, columns.sizes_bytes, columns.streams, columns.times_us, columns.stacks)
    if any(len(values) != len(columns.actions) for values in lists):
        cause = "columns of different lengths"
        raise DecodeError(cause)
    if not all(0 <= action < len(ACTIONS) for action in columns.actions):
        cause = "an event of an unknown kind"
        raise DecodeError(cause)
    if not all(-1 <= stack < len(table) for stack in columns.stacks):
        cause = "an event with a stack that is not in the table"
        raise DecodeError(cause)
    try:
        return Trace(
            device=columns.device,
            actions=bytes(columns.actions),
            addresses=array("Q", columns.addresses),
            sizes_bytes=array("Q", columns.sizes_bytes),
            streams=array("Q", columns.streams),
            times_us=array("Q", columns.times_us),
            stacks=array("q", columns.stacks),
            stack_table=table,
            empty_cache_calls=columns.empty_cache_calls,
        )
    except OverflowError:
        cause = "a negative number in an event"
        raise DecodeError(cause) from None
