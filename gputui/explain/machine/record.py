"""Which readings of a snapshot the history keeps, for graphs and for findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import nsmallest

from gputui.model.history import ALL_DEVICES, HOST, SPANS_S, History
from gputui.model.machine.device import Device
from gputui.model.machine.device_readings import GRAPHED
from gputui.model.machine.process import Process, ProcessState
from gputui.model.machine.snapshot import Snapshot
from gputui.model.reading import Absent, value_of

PROCESSES_AT_MOST = 500
"""How many processes have graphs at most: the points of one take 100 kB after six hours."""

_HEAT = frozenset({"sw_thermal_slowdown", "hw_thermal_slowdown"})


def history_owner(process: Process) -> str:
    """The key of a process in the history."""
    return f"process {process.identity.pid} {process.identity.started}"


def record(history: History, snapshot: Snapshot) -> None:
    """Add the readings that graphs show to the history; a stale snapshot adds nothing about devices.

    There may be thousands of processes. So a point of a process's graph is one reading, not the mean of several, and
    only `PROCESSES_AT_MOST` are recorded.
    """
    time = snapshot.time
    begins_a_point = int(time / SPANS_S[0]) > int(history.time / SPANS_S[0])
    if not snapshot.devices_age_s:
        for device in snapshot.devices.devices:
            history.add(time, device.key, _device_readings(device))
        history.add(time, ALL_DEVICES, _all_devices(snapshot.devices.devices))
    history.add(time, HOST, _host_readings(snapshot))
    owners = {history_owner(process): process for process in _graphed(history, snapshot)}
    for owner, process in owners.items():
        if begins_a_point or not history.knows(owner):
            history.add(time, owner, _process_readings(process))
    kept = {device.key for device in snapshot.devices.devices} | {ALL_DEVICES, HOST}
    history.forget(kept | owners.keys())


def _graphed(history: History, snapshot: Snapshot) -> Sequence[Process]:
    """The processes to record: the one on screen, then those that have points already, then those with most memory."""
    processes = snapshot.processes.processes
    if len(processes) <= PROCESSES_AT_MOST:
        return processes
    on_screen = snapshot.details.identity if snapshot.details else None
    return nsmallest(
        PROCESSES_AT_MOST,
        processes,
        key=lambda process: (
            process.identity != on_screen,
            not history.knows(history_owner(process)),
            -sum(value_of(use.used_bytes) or 0 for use in process.uses),
        ),
    )


def _device_readings(device: Device) -> Iterator[tuple[str, float]]:
    for reading in GRAPHED:
        point = reading.point(device)
        if point is not None:
            yield reading.series, point
    yield from _slowed(device)


def _slowed(device: Device) -> Iterator[tuple[str, float]]:
    """The percentage of the time in which heat or the power supply lowered the clocks; 0 or 100 without a counter."""
    reasons, throttled = value_of(device.throttle_reasons), value_of(device.throttled)
    if throttled is not None:
        yield "slowed_for_heat_percent", throttled.thermal_percent
    elif reasons is not None:
        yield "slowed_for_heat_percent", 100.0 * (not _HEAT.isdisjoint(reasons))
    if reasons is not None:
        yield "slowed_by_supply_percent", 100.0 * ("hw_power_brake_slowdown" in reasons)


def _all_devices(devices: tuple[Device, ...]) -> Iterator[tuple[str, float]]:
    percents = [
        device.gpu_utilization_percent
        for device in devices
        if not isinstance(device.gpu_utilization_percent, Absent) and device.mig is None
    ]
    if percents:
        yield "gpu_utilization_percent", sum(percents) / len(percents)
    yield (
        "used_bytes",
        sum(memory.used_bytes for device in devices if not device.mig and (memory := value_of(device.memory))),
    )


def _host_readings(snapshot: Snapshot) -> Iterator[tuple[str, float]]:
    if not isinstance(snapshot.host.cpu_percent, Absent):
        yield "cpu_percent", snapshot.host.cpu_percent
    host = snapshot.host
    for name, space in (
        ("used_bytes", host.memory),
        ("swap_bytes", host.swap),
        ("shm_bytes", host.shm),
        ("limit_bytes", host.memory_limit),
    ):
        if space is not None and not isinstance(space, Absent):
            yield name, space.used_bytes


def _process_readings(process: Process) -> Iterator[tuple[str, float]]:
    for name in ("rss_bytes", "cpu_percent"):
        value = getattr(process, name)
        if not isinstance(value, Absent):
            yield name, value
    yield "main_thread_running", float(process.state is ProcessState.RUNNING)
    if process.workers:
        yield "workers_running", process.workers.running / process.workers.count
        yield "workers_on_disk", process.workers.on_disk / process.workers.count
    for use in process.uses:
        if not isinstance(use.used_bytes, Absent):
            yield f"used_bytes {use.device}", use.used_bytes
