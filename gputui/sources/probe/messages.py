"""Makes objects of the model from a probe's messages. Traces and references are columns, which must fit each other."""

from __future__ import annotations

import binascii
from array import array
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from gputui.explain.memory.map_faults import fault_of_traces, without_faulty_map
from gputui.explain.moment.probe_state import Message
from gputui.model.attached.allocator import CallSite
from gputui.model.attached.target import ActionResult, Garbage, Greeting, Look, Mark, ReferencesPart, Statistics
from gputui.model.attached.trace import RecordedTraces, RecordingCost, Trace
from gputui.model.decode import DecodeError, decode
from gputui.protocol.trace_events import ACTIONS

MAX_FRAMES = 1_000_000
"""How many frames all stacks of a message may have together."""
_MESSAGES: dict[str, type[Message]] = {
    "greeting": Greeting,
    "statistics": Statistics,
    "look": Look,
    "mark": Mark,
    "action_result": ActionResult,
    "garbage": Garbage,
}


def message_of(message: dict[str, object]) -> Message | None:
    """A probe's message as an object of the model, None for an unknown type; raises DecodeError if it is malformed.

    An allocator's map that contradicts itself is left out.
    """
    if reader := _READERS.get(str(message["type"])):
        return reader(message)
    kind = _MESSAGES.get(str(message["type"]))
    decoded = None if kind is None else decode(kind, message)
    if isinstance(decoded, Look):
        return without_faulty_map(decoded)
    return without_faulty_map(decoded) if isinstance(decoded, ActionResult) else decoded


class _Columns(NamedTuple):
    device: int
    actions: tuple[int, ...]
    addresses: tuple[int, ...]
    sizes_bytes: tuple[int, ...]
    streams: tuple[int, ...]
    times_us: tuple[int, ...]
    stacks: tuple[int, ...]
    empty_cache_calls: tuple[int, ...] | None = None
    pools: tuple[int, ...] = ()
    pool_table: tuple[tuple[int, int], ...] = ()


_TRACE_COLUMNS = {"addresses": "Q", "sizes_bytes": "Q", "streams": "Q", "times_us": "Q", "stacks": "q", "pools": "h"}
"""The columns of numbers, and their type codes in an array."""


class _Traces(NamedTuple):
    traces: tuple[_Columns, ...]
    frames: tuple[CallSite, ...]
    stacks: tuple[tuple[int, ...], ...]


class _Step(NamedTuple):
    recording: RecordingCost
    max_events: int


def recorded_traces(message: dict[str, object]) -> RecordedTraces:
    """The traces and the look of a recorded step; raises DecodeError if it is malformed."""
    step, look = decode(_Step, message), without_faulty_map(decode(Look, message))
    return RecordedTraces(traces_in(message), look, step.max_events, step.recording)


def traces_in(message: dict[str, object]) -> tuple[Trace, ...]:
    """The traces in a message; raises DecodeError if they are malformed."""
    recorded = decode(_Traces, message)
    if sum(map(len, recorded.stacks)) > MAX_FRAMES:
        cause = f"more than {MAX_FRAMES} frames"
        raise DecodeError(cause)
    numbers = (number for stack in recorded.stacks for number in stack)
    _check(numbers, 0, len(recorded.frames), "a stack with a frame that is not in the table")
    table = tuple(tuple(map(recorded.frames.__getitem__, stack)) for stack in recorded.stacks)
    traces = tuple(_trace(columns, table) for columns in recorded.traces)
    fault = fault_of_traces(traces)
    if fault:
        cause = f"a trace that cannot be: {fault}"
        raise DecodeError(cause)
    return traces


def _trace(columns: _Columns, table: tuple[tuple[CallSite, ...], ...]) -> Trace:
    fields = columns._asdict()
    if any(len(fields[name]) != len(columns.actions) for name in _TRACE_COLUMNS if name != "pools" or columns.pools):
        cause = "columns of different lengths"
        raise DecodeError(cause)
    _check(columns.actions, 0, len(ACTIONS), "an event of an unknown kind")
    _check(columns.stacks, -1, len(table), "an event with a stack that is not in the table")
    _check(columns.pools, -1, len(columns.pool_table), "an event with a pool that is not in the table")
    try:
        fields |= {name: array(kind, fields[name]) for name, kind in _TRACE_COLUMNS.items()}
    except OverflowError:
        cause = "a negative or too large number in an event"
        raise DecodeError(cause) from None
    return Trace(**{**fields, "actions": bytes(columns.actions)}, stack_table=table)


def _check(numbers: Iterable[int], lowest: int, end: int, cause: str) -> None:
    if not all(lowest <= number < end for number in numbers):
        raise DecodeError(cause)


class _PartFields(NamedTuple):
    next: tuple[int, int, int, int] | None
    reason: str
    is_broken: bool
    stop_ms: float


_REFERENCE_COLUMNS = {"addresses": "Q", "types": "Q", "counts": "q", "lengths": "I", "referents": "Q"}
_REFERENCE_COLUMNS |= {"tensors": "I", "nodes": "I"}
"""The type codes of columns that are base64 of numbers in this machine's byte order."""


def references_part(message: dict[str, object]) -> ReferencesPart:
    """A part of all references; raises DecodeError if it is malformed."""
    columns: dict[str, Any] = {name: _column(message, name, kind) for name, kind in _REFERENCE_COLUMNS.items()}
    part = ReferencesPart(**columns, **decode(_PartFields, message)._asdict())
    objects = len(part.addresses)
    is_whole = len(part.types) == len(part.counts) == len(part.lengths) == objects
    is_whole = is_whole and sum(part.lengths) == len(part.referents)
    if not is_whole or any(number >= objects for number in (*part.tensors, *part.nodes)):
        raise DecodeError("references whose columns do not fit each other")
    return part


def _column(message: dict[str, object], name: str, kind: str) -> array[int]:
    column = array(kind)
    text = message.get(name, "")
    try:
        if not isinstance(text, str):
            raise TypeError
        column.frombytes(binascii.a2b_base64(text))
    except (TypeError, ValueError) as error:
        cause = f"{name} is no column of numbers"
        raise DecodeError(cause) from error
    return column


_READERS: dict[str, Callable[[dict[str, object]], Message]] = {
    "step": recorded_traces,
    "references": references_part,
}
