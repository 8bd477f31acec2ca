"""Opens a snapshot of PyTorch's as the moment that the attach screens show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gputui.errors import GputuiError
from gputui.explain.memory.map_faults import fault_of, fault_of_traces
from gputui.explain.memory.trace_levels import levels_of
from gputui.explain.moment.probe_state import ProbeState, layouts_of, moment_of
from gputui.explain.owners.names import counted
from gputui.model.attached.allocator import AllocatorMap, AllocatorStatistics
from gputui.model.attached.analysis import DriverFacts
from gputui.model.attached.failure import Failure
from gputui.model.attached.moment import HostMoment, OpenedFile, TargetMoment
from gputui.model.attached.target import Cost, Greeting, Look
from gputui.model.attached.tensors import Inventory
from gputui.model.attached.trace import OUT_OF_MEMORY, Trace
from gputui.model.printable import printable
from gputui.model.reading import Absent, Problem, Reading
from gputui.regular_files import open_regular
from gputui.sources.files.torch_snapshot.events import EventReader
from gputui.sources.files.torch_snapshot.fields import Entry, FormatError, LeftOut
from gputui.sources.files.torch_snapshot.frames import Frames
from gputui.sources.files.torch_snapshot.segments import MapReader, statistics_of
from gputui.sources.files.torch_snapshot.traces import failure_in, traces_of
from gputui.sources.files.torch_snapshot.unpickle import PickleError, Progress, unpickle

NOT_IN_FILE = Absent("PyTorch's snapshots do not hold it")
WITHOUT_NAMES = (
    "PyTorch's snapshots have no names of tensors: what is allocated is shown by the line of code that allocated it."
)
WITHOUT_SITES = (
    "This snapshot has neither names of tensors nor lines of code: turn on torch.cuda.memory._record_memory_history()"
    " before the program allocates, or attach gputui to the running program."
)
PEAKS_OF_TRACE = "Peaks are those of the recorded trace; rounding is left out of the peak of allocated memory."
NO_PEAKS = "There is no trace of allocations in it, so the peaks shown are the values of this moment."
REMEDY = "Name a file written by torch.cuda.memory._dump_snapshot(), by `gputui snapshot`, or by gputui's recorder."


class NoSnapshotError(GputuiError):
    """A file that cannot be shown as a snapshot."""


def open_snapshot(path: Path, progress: Progress = lambda _: None) -> TargetMoment:
    """The moment in a file. Raises NoSnapshotError, and whatever `progress` raises."""
    try:
        with open_regular(path, buffering=0) as file:
            modified = path.stat().st_mtime
            data, read = unpickle(file, progress)
            return moment_in(data, read, OpenedFile("snapshot", printable(path.name)), modified)
    except OSError as error:
        cause = f"{path} cannot be read: {error.strerror}."
        raise NoSnapshotError(cause) from None
    except PickleError as error:
        cause = f"{path} is not a snapshot of PyTorch's: {error}."
        raise NoSnapshotError(cause, REMEDY) from None
    except FormatError as error:
        cause = f"{path} is a pickle, but not a snapshot of PyTorch's: in it, {error}."
        raise NoSnapshotError(cause, REMEDY) from None


def moment_in(data: object, read: EventReader, file: OpenedFile, time: float) -> TargetMoment:
    """The moment of an unpickled snapshot; `time` (epoch seconds) counts if the snapshot's events have no times."""
    snapshot = _checked(data)
    frames = Frames()
    reader = MapReader(frames)
    layout = reader.map_of(snapshot)
    recorded = traces_of(snapshot, read, frames)
    fault = fault_of(layout) or fault_of_traces(recorded)
    if fault:
        raise FormatError(fault)
    traces, statistics = _with_traces(layout, recorded)
    time = max((trace.times_us[-1] / 1e6 for trace in traces), default=0.0) or time
    inventory = Inventory(tuple(reader.storages), how="snapshot", is_of_one_moment=True) if reader.storages else None
    problems = (
        *_left_out(frames.left_out),
        *(() if inventory else (_without_names(layout),)),
        PEAKS_OF_TRACE if traces else NO_PEAKS,
    )
    cost = Cost(0.0, 0.0)
    look = Look(time, statistics, layout.settings, layout, inventory, cost, tuple(map(Problem, problems)))
    greeting = Greeting(0, file.name, "", "", None, None, is_cuda_initialized=True, devices=())
    host = HostMoment(NOT_IN_FILE, NOT_IN_FILE, NOT_IN_FILE)
    state = ProbeState(greeting, statistics, look, layouts_of(look))
    failures = [failure for trace in traces if (failure := failure_in(trace)) is not None]
    failure = max(failures, key=lambda failure: failure.time, default=None)
    drivers = {
        counters.device: _driver_facts(next((f for f in failures if f.device == counters.device), None))
        for counters in statistics
    }
    moment = moment_of(time, state, drivers, host)
    return replace(moment, failure=failure, traces=traces, file=file, look_cost=None)


def _driver_facts(failure: Failure | None) -> DriverFacts:
    """What the driver said of a device: only what was free, if a request failed."""
    free: Reading[int] = failure.device_free_bytes if failure else NOT_IN_FILE
    return DriverFacts(None, NOT_IN_FILE, NOT_IN_FILE, NOT_IN_FILE, free, NOT_IN_FILE)


def _checked(data: object) -> Entry:
    """The snapshot as a dictionary; `torch.cuda.memory_snapshot()` returns only the list of segments."""
    snapshot = {"segments": data} if type(data) is list else data
    if type(snapshot) is not dict or type(snapshot.get("segments")) is not list:
        raise FormatError("there are no segments")
    return snapshot


def _left_out(left_out: LeftOut) -> tuple[str, ...]:
    if not left_out.rows:
        return ()
    rows = counted(left_out.rows, "impossible row")
    return (f"{rows} of the file {'is' if left_out.rows == 1 else 'are'} left out. In the first, {left_out.first}.",)


def _without_names(layout: AllocatorMap) -> str:
    has_sites = any(block.site for segment in layout.segments for block in segment.blocks)
    return WITHOUT_NAMES if has_sites else WITHOUT_SITES


def _with_traces(
    layout: AllocatorMap, traces: tuple[Trace, ...]
) -> tuple[tuple[Trace, ...], tuple[AllocatorStatistics, ...]]:
    """The traces with `is_whole`, and the counters with the peaks and errors that follow from the traces."""
    of_device = {trace.device: trace for trace in traces}
    statistics = []
    for device in sorted({segment.device for segment in layout.segments} | of_device.keys()):
        counters, trace = statistics_of(layout, device), of_device.get(device)
        if trace is not None:
            levels = levels_of(trace)
            of_device[device] = replace(trace, is_whole=levels.reserved_bytes == counters.reserved_bytes)
            counters = replace(
                counters,
                num_ooms=trace.actions.count(OUT_OF_MEMORY),
                peak_allocated_bytes=counters.allocated_bytes + levels.peak_live_bytes - levels.live_bytes,
                peak_active_bytes=counters.active_bytes + levels.peak_live_bytes - levels.live_bytes,
                peak_reserved_bytes=counters.reserved_bytes + levels.peak_reserved_bytes - levels.reserved_bytes,
            )
        statistics.append(counters)
    return tuple(of_device[trace.device] for trace in traces), tuple(statistics)
