"""Makes traces, as columns, from the `device_traces` of a snapshot; finds the out-of-memory error in a trace."""

from __future__ import annotations

from array import array

from gputui.model.attached.allocator import CallSite
from gputui.model.attached.failure import Failure
from gputui.model.attached.trace import ALLOC, OUT_OF_MEMORY, Trace
from gputui.sources.files.torch_snapshot.events import CODES, NO_POOL, NO_STACK, POOLS_AT_MOST, EventReader, EventRun
from gputui.sources.files.torch_snapshot.fields import Entry, FormatError, entries, fail, integer, pool_id, text
from gputui.sources.files.torch_snapshot.frames import Frames

LEFT_BY_STATE = 1
"""How many events PyTorch keeps where the program recorded only the state, not a history."""
EVENTS_AT_MOST = 50_000_000
DEVICES_AT_MOST = 1024


class TraceReader:
    """Collects the trace of one device."""

    def __init__(self, device: int, frames: Frames, read: EventReader) -> None:
        self._device = device
        self._frames = frames
        self._read = read
        self._actions = bytearray()
        self._addresses, self._sizes_bytes, self._streams, self._times_us, self._stacks = (array("q") for _ in range(5))
        self._pools = array("h")
        self._pool_numbers: dict[tuple[int, int], int] = {}
        self._numbers: dict[tuple[CallSite, ...], int] = {(): NO_STACK}
        self._number_of_read: dict[int, int] = {NO_STACK: NO_STACK}

    def add(self, entry: Entry) -> None:
        """Add one event, unless gputui does not know its kind, or it has an impossible value."""
        code = CODES.get(text(entry, "action"))
        if code is None:
            return
        keys = ("device_free" if code == OUT_OF_MEMORY else "addr", "size", "stream", "time_us")
        try:
            numbers = [integer(entry, key, 0) for key in keys]
            stack = self._number(entries(entry, "frames"))
            pool = pool_id(entry, "pool_id") if "pool_id" in entry else None
        except FormatError as error:
            self._frames.left_out.add(error)
            return
        self._actions.append(code)
        for column, number in zip(
            (self._addresses, self._sizes_bytes, self._streams, self._times_us), numbers, strict=True
        ):
            column.append(number)
        self._stacks.append(stack)
        self._pools.append(NO_POOL if pool is None else self._pool_number(pool))

    def add_run(self, run: EventRun) -> None:
        """Add events that are already in the columns of the `EventReader`."""
        read, part = self._read, slice(run.start, run.end)
        self._actions += read.actions[part]
        self._addresses += read.addresses[part]
        self._sizes_bytes += read.sizes_bytes[part]
        self._streams += read.streams[part]
        self._times_us += read.times_us[part]
        numbers = read.stack_column[part]
        for number in set(numbers) - self._number_of_read.keys():
            self._number_of_read[number] = self._number(entries({"frames": read.stacks[number]}, "frames"))
        self._stacks.extend(map(self._number_of_read.__getitem__, numbers))
        pools = read.pool_column[part]
        renumbered = {number: self._pool_number(read.pools[number]) for number in set(pools) - {NO_POOL}}
        self._pools.extend(renumbered.get(number, NO_POOL) for number in pools)

    def _number(self, frames: list[Entry]) -> int:
        return self._numbers.setdefault(self._frames.stack(frames), len(self._numbers) - 1)

    def _pool_number(self, pool: tuple[int, int]) -> int:
        number = self._pool_numbers.setdefault(pool, len(self._pool_numbers))
        if number >= POOLS_AT_MOST:
            fail("pool_id", pool)
        return number

    @property
    def trace(self) -> Trace:
        """The trace so far."""
        table = tuple(stack for stack in self._numbers if stack)
        return Trace(
            self._device,
            bytes(self._actions),
            self._addresses,
            self._sizes_bytes,
            self._streams,
            self._times_us,
            self._stacks,
            table,
            pools=self._pools if self._pool_numbers else array("h"),
            pool_table=tuple(self._pool_numbers),
        )


def traces_of(snapshot: Entry, read: EventReader, frames: Frames) -> tuple[Trace, ...]:
    """The trace of each device that recorded events; `read` has those that the unpickler made no entries of."""
    devices = snapshot.get("device_traces") or []
    if type(devices) is not list or len(devices) > DEVICES_AT_MOST:
        fail("device_traces", devices)
    traces = [_trace(device, events, read, frames) for device, events in enumerate(devices)]
    if sum(map(len, traces)) > EVENTS_AT_MOST:
        fail("device_traces", devices)
    return tuple(trace for trace in traces if len(trace) > LEFT_BY_STATE)


def _trace(device: int, events: object, read: EventReader, frames: Frames) -> Trace:
    if type(events) is not list:
        fail("device_traces", events)
    reader = TraceReader(device, frames, read)
    for event in events:
        if type(event) is EventRun:
            reader.add_run(event)
        elif type(event) is dict:
            reader.add(event)
        else:
            fail("device_traces", event)
    return reader.trace


def failure_in(trace: Trace) -> Failure | None:
    """The out-of-memory error at the end of a trace, after which nothing was allocated; None without one."""
    at = trace.actions.rfind(OUT_OF_MEMORY)
    if at < 0 or ALLOC in trace.actions[at:]:
        return None
    stack = trace.stacks[at]
    return Failure(
        time=trace.times_us[at] / 1e6,
        device=trace.device,
        requested_bytes=trace.sizes_bytes[at],
        device_free_bytes=trace.addresses[at],
        device_total_bytes=0,
        thread="",
        stack=trace.stack_table[stack] if stack >= 0 else (),
        number=trace.actions.count(OUT_OF_MEMORY),
    )
