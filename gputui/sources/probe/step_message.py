"""A probe's message with a recorded step: a look, and the traces that end at its moment as columns."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from gputui.explain.memory.map_faults import fault_of_traces, without_faulty_map
from gputui.model.attached.allocator import CallSite
from gputui.model.attached.target import Look
from gputui.model.attached.trace import RecordedTraces, RecordingCost, Trace
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
    pools: tuple[int, ...] = ()
    pool_table: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Traces:
    traces: tuple[_Columns, ...]
    frames: tuple[CallSite, ...]
    stacks: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class _Step:
    recording: RecordingCost
    max_events: int


def recorded_traces(message: dict[str, object]) -> RecordedTraces:
    """The traces and the look of a message; raises DecodeError if it is malformed."""
    step, look = decode(_Step, message), without_faulty_map(decode(Look, message))
    return RecordedTraces(traces_in(message), look, step.max_events, step.recording)


def traces_in(message: dict[str, object]) -> tuple[Trace, ...]:
    """The traces of a message, which end at the moment of a look; raises DecodeError if they are malformed."""
    recorded = decode(_Traces, message)
    if sum(map(len, recorded.stacks)) > MAX_FRAMES:
        cause = f"more than {MAX_FRAMES} frames"
        raise DecodeError(cause)
    try:
        table = tuple(tuple(recorded.frames[_natural(number)] for number in stack) for stack in recorded.stacks)
    except IndexError:
        cause = "a stack with a frame that is not in the table"
        raise DecodeError(cause) from None
    traces = tuple(_trace(columns, table) for columns in recorded.traces)
    fault = fault_of_traces(traces)
    if fault:
        cause = f"a trace that cannot be: {fault}"
        raise DecodeError(cause)
    return traces


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
    if columns.pools and len(columns.pools) != len(columns.actions):
        cause = "columns of different lengths"
        raise DecodeError(cause)
    if not all(-1 <= pool < len(columns.pool_table) for pool in columns.pools):
        cause = "an event with a pool that is not in the table"
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
            pools=array("h", columns.pools),
            pool_table=columns.pool_table,
        )
    except OverflowError:
        cause = "a negative or too large number in an event"
        raise DecodeError(cause) from None
