"""A recorded trace prepared for replays: a device's operations, with the settings and the device of the recording."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType

from gputui.errors import UsageError
from gputui.explain.memory.trace_levels import levels_of
from gputui.explain.owners.owners import owners_of
from gputui.explain.step.step import step_of
from gputui.explain.whatif.allocator.device import Allocator
from gputui.explain.whatif.allocator.settings import CHANGES, DEFAULTS, Device, with_settings
from gputui.explain.whatif.replay.layout import StartLayout, layout_before
from gputui.explain.whatif.replay.replay import Run
from gputui.explain.whatif.trace.beginning import Beginning, beginning_of
from gputui.explain.whatif.trace.operations import Kind, Operations, device_of, operations_of
from gputui.explain.whatif.trace.parts import Parts, parts_of_step
from gputui.explain.whatif.trace.scaling import varying
from gputui.model.attached.allocator import AllocatorSettings, Segment
from gputui.model.attached.analysis import Owner
from gputui.model.attached.moment import DeviceMoment, TargetMoment
from gputui.model.attached.target import Look
from gputui.model.attached.trace import Trace
from gputui.model.reading import value_of


@dataclass(frozen=True, slots=True)
class Recorded:
    """One device's trace, ready for a replay.

    `varies` is 1 for each allocation whose size depends on the batch, else 0. `recorded_peak_bytes` is the most that
    was reserved during the recording, with which a replay is compared; None where nothing ran: `doubts` then says why
    the figures are not sure. `start` is None where nothing was reserved before the first event.
    """

    operations: Operations
    settings: AllocatorSettings
    device: Device
    start: StartLayout | None
    varies: bytes
    recorded_peak_bytes: int | None
    doubts: tuple[str, ...] = ()
    parts: Parts | None = None
    """What each request is for; None where the trace does not say it."""
    beginning: Beginning | None = None
    """How the program came to where the trace begins; None if the trace begins with it, or no step repeats in it."""

    @property
    def is_ahead(self) -> bool:
        """Whether the program did not run: the requests are those of a step on tensors without data."""
        return self.recorded_peak_bytes is None

    @property
    def is_whole(self) -> bool:
        """Whether the trace begins with the program."""
        return self.operations.earlier == 0

    def scaled(self, now: int, then: int) -> array[int]:
        """The sizes of all requests with a batch of `then` instead of `now`: those that depend on it, in proportion."""
        return array("Q", [
            -(-size * then // now) if flag else size
            for size, flag in zip(self.operations.sizes_bytes, self.varies, strict=True)
        ])  # fmt: skip


def recorded_of(moment: TargetMoment, device: int | None = None) -> Recorded:
    """A moment's trace of `device`, ready for a replay: see `recorded_from`."""
    return recorded_from(moment.traces, moment.look, device, devices_of(moment))


def devices_of(moment: TargetMoment) -> dict[int, Device]:
    """A moment's devices by PyTorch's index: their memory, and how much of it other processes leave to PyTorch."""
    return {device.index: _device_of(device) for device in moment.devices}


def _device_of(device: DeviceMoment) -> Device:
    free, used = value_of(device.driver.device_free_bytes), value_of(device.driver.device_used_bytes)
    if free is None or used is None:
        return Device(None, value_of(device.driver.device_total_bytes))
    return Device(free + device.statistics.reserved_bytes, free + used)


def recorded_from(
    traces: Sequence[Trace],
    look: Look | None,
    device: int | None = None,
    devices: Mapping[int, Device] = MappingProxyType({}),
) -> Recorded:
    """The trace of `device`, ready for a replay, with the look at its end. Raises UsageError where there is no trace.

    `device` None stands for the device with the longest trace; `devices` is the memory of each device, by index.
    """
    longest = sorted((trace for trace in traces if len(trace)), key=len, reverse=True)
    chosen = next((trace for trace in longest if device is None or trace.device == device), None)
    if chosen is None:
        cause = "There is no trace of allocations in it, and only a trace can be replayed."
        raise UsageError(cause, HOW_TO_RECORD)
    layout = look.map if look else None
    segments = [segment for segment in layout.segments if segment.device == chosen.device] if layout else []
    settings = layout.settings if layout else DEFAULTS
    with replayable():
        owners = owners_of(layout, look.inventory, chosen.device) if look and layout else {}
        ready = recorded(chosen, segments, settings, devices.get(chosen.device, Device()), owners)
        step = step_of(chosen, look) if look else None
        parts = parts_of_step(step, ready.operations) if step else None
        return replace(ready, parts=parts, beginning=_beginning(ready.operations, parts))


@contextmanager
def replayable() -> Iterator[None]:
    """Raise UsageError where the trace, its map and its settings contradict each other."""
    try:
        yield
    except (LookupError, ArithmeticError, ValueError) as error:
        cause = "The trace contradicts the map at its end, so it cannot be replayed."
        raise UsageError(cause, "Record another one.") from error


HOW_TO_RECORD = (
    "Record one with `gputui step PID`, start the program with `gputui run --memory-history PROGRAM`, after which black"
    " boxes hold one, or call torch.cuda.memory._record_memory_history() in it before"
    " torch.cuda.memory._dump_snapshot(FILE)."
)


def recorded(
    trace: Trace,
    segments: Sequence[Segment],
    settings: AllocatorSettings,
    known: Device = Device(),  # noqa: B008 - it is immutable
    owners: Mapping[int, Owner] = MappingProxyType({}),
) -> Recorded:
    """A device's trace, ready for a replay, from the map's `segments` at its end, the recording's settings, and owners.

    `known` is the device's memory now; an out-of-memory error in the trace says better what was there at its time.
    """
    device, levels = device_of(trace, segments, known.total_bytes), levels_of(trace)
    peak_bytes = sum(segment.size_bytes for segment in segments) + levels.peak_reserved_bytes - levels.reserved_bytes
    if device.available_bytes is None and known.available_bytes is not None:
        device = replace(device, available_bytes=max(known.available_bytes, peak_bytes))
    operations = operations_of(trace, segments, device)
    settings = _complete(settings)
    start = None if operations.earlier == 0 and not segments else layout_before(trace, segments, operations, settings)
    settings = with_order(settings, operations, device, start)
    beginning = _beginning(operations, None)
    return Recorded(operations, settings, device, start, varying(operations, owners), peak_bytes, beginning=beginning)


def _beginning(operations: Operations, parts: Parts | None) -> Beginning | None:
    return beginning_of(operations, parts) if operations.earlier else None


def _complete(settings: AllocatorSettings) -> AllocatorSettings:
    """The settings, with those that PyTorch's map has no field for read from the program's PYTORCH_ALLOC_CONF."""
    values = dict(settings.values)
    for name in ("max_non_split_rounding_mb", "garbage_collection_threshold"):
        if name in values and name in CHANGES:
            settings = with_settings(settings, f"{name}:{values[name]}")
    return replace(settings, backend="native")


# Of free blocks of one size, older versions of PyTorch take the one with the lowest address. Newer ones (seen in 2.15)
# take the one in the oldest segment, so that all ranks of a job choose alike. A trace's addresses show which it was.
OPERATIONS_AT_MOST = 20_000
"""How many operations are replayed for that: two free blocks of one size occur much earlier."""


def with_order(
    settings: AllocatorSettings, operations: Operations, device: Device, start: StartLayout | None
) -> AllocatorSettings:
    """The settings with the value of `prefers_older` that reproduces the trace's addresses for longer."""
    other = replace(settings, prefers_older=not settings.prefers_older)
    return max((settings, other), key=lambda one: _agreement(one, operations, device, start))  # the first of equals


def _agreement(settings: AllocatorSettings, operations: Operations, device: Device, start: StartLayout | None) -> int:
    """The first operation for which a replay takes another block than the recording; if none does, how many it did."""
    run = Run(operations, Allocator(settings, device), operations.sizes_bytes)
    if run.begin(start) is not None:
        return 0
    offsets: dict[int, int] = {}
    end = min(len(operations.kinds), OPERATIONS_AT_MOST)
    for place in range(end):
        if run.go(place, place + 1) is not None:
            return place
        if operations.kinds[place] == Kind.MALLOC:
            number = operations.numbers[place]
            block = run.blocks[number]
            offset = operations.addresses[number] - block.address
            if offsets.setdefault(block.segment, offset) != offset:
                return place
    return end
