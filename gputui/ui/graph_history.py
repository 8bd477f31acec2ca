"""Which readings of a snapshot are kept for graphs."""

from __future__ import annotations

from collections.abc import Iterator

from gputui.model.device import Device
from gputui.model.device_readings import GRAPHED
from gputui.model.history import SPANS_S, History
from gputui.model.process import Process
from gputui.model.reading import Absent
from gputui.model.snapshot import Snapshot
from gputui.ui.drawing.devices import memory_of
from gputui.ui.drawing.process_page import history_owner
from gputui.ui.widgets.graph_band import ALL_DEVICES, HOST


def record(history: History, snapshot: Snapshot) -> None:
    """Add the readings that graphs show to the history; a stale snapshot adds nothing about devices.

    There may be a thousand processes: each point of their graphs is one reading, not the mean of many.
    """
    time = snapshot.time
    begins_a_point = int(time / SPANS_S[0]) > int(history.time / SPANS_S[0])
    if not snapshot.devices_age_s:
        for device in snapshot.devices.devices:
            history.add(time, device.key, _device_readings(device))
        history.add(time, ALL_DEVICES, _all_devices(snapshot.devices.devices))
    history.add(time, HOST, _host_readings(snapshot))
    owners = {history_owner(process): process for process in snapshot.processes.processes}
    for owner, process in owners.items():
        if begins_a_point or not history.knows(owner):
            history.add(time, owner, _process_readings(process))
    kept = {device.key for device in snapshot.devices.devices} | {ALL_DEVICES, HOST}
    history.forget(kept | owners.keys())


def _device_readings(device: Device) -> Iterator[tuple[str, float]]:
    for reading in GRAPHED:
        point = reading.point(device)
        if point is not None:
            yield reading.series, point


def _all_devices(devices: tuple[Device, ...]) -> Iterator[tuple[str, float]]:
    percents = [
        device.gpu_utilization_percent
        for device in devices
        if not isinstance(device.gpu_utilization_percent, Absent) and device.mig is None
    ]
    if percents:
        yield "gpu_utilization_percent", sum(percents) / len(percents)
    yield "used_bytes", sum(memory.used_bytes for device in devices if not device.mig and (memory := memory_of(device)))


def _host_readings(snapshot: Snapshot) -> Iterator[tuple[str, float]]:
    if not isinstance(snapshot.host.cpu_percent, Absent):
        yield "cpu_percent", snapshot.host.cpu_percent
    if not isinstance(snapshot.host.memory, Absent):
        yield "used_bytes", snapshot.host.memory.used_bytes


def _process_readings(process: Process) -> Iterator[tuple[str, float]]:
    for name in ("rss_bytes", "cpu_percent"):
        value = getattr(process, name)
        if not isinstance(value, Absent):
            yield name, value
    for use in process.uses:
        if not isinstance(use.used_bytes, Absent):
            yield f"used_bytes {use.device}", use.used_bytes
