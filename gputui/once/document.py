"""The once document, `gputui.once/1`: a snapshot as JSON. The names are a contract with scripts.

The shape is always the same: every name is there, and a missing value is null. `problems` has the reason ("power_w:
insufficient permissions") unless the value is missing by nature: the device does not support the reading, a MIG
instance has none of its own, or the reading is taken only while a screen shows it (PCIe rates take 20 ms a call).
True utilisation, `profile`, is null as a whole where nothing of it is measured, always with the reason.
`unattributed_bytes` is 0 where every used byte has its process, and null where that is not known. Problems of a device
and of the processes on it are in the device's list; those of NVML, of the process list and of the host in the
document's. Bytes are integers, percentages and watts have one decimal. A process's `cpu_percent` is the mean of its
life, as `ps` has it; the host's is of the time that the look took, without its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from gputui.model.machine.device import Device, DeviceUse
from gputui.model.machine.device_readings import READINGS
from gputui.model.machine.finding import MachineFinding
from gputui.model.machine.owner import Owner
from gputui.model.machine.process import OTHER_NAMESPACES, Identity, Process, ProcessState
from gputui.model.machine.snapshot import Snapshot
from gputui.model.reading import Absent, AbsentKind, Reading, value_of

if TYPE_CHECKING:
    from gputui.once.allocators import Allocators

T = TypeVar("T")

SCHEMA = "gputui.once/1"

_NOT_HERE = (ProcessState.VANISHED, ProcessState.HIDDEN, *OTHER_NAMESPACES, ProcessState.ZOMBIE)
"""States of a process that are, each, the one reason for all of its missing values."""


def document(snapshot: Snapshot, *, for_scripts: bool = True, allocators: Allocators | None = None) -> dict[str, Any]:
    """The once document of `snapshot`, with what PyTorch's allocators hold, ready for `json.dumps`.

    Scripts are told why a GPU has no `profile`; people need not be told at each look that it is older than Hopper.
    """
    body = _body(snapshot, allocators or {})
    for part, device in zip(body["devices"], snapshot.devices.devices, strict=True):
        source = device.profile_source
        if not for_scripts or part["profile"] or not isinstance(source, Absent):
            continue
        if source.kind is AbsentKind.NOT_SUPPORTED:  # other reasons are there already
            part["problems"].append(f"profile: {source.reason}")
    return body


def findings_document(findings: Iterable[MachineFinding], devices: Iterable[Device]) -> list[dict[str, Any]]:
    """Each finding with the index of its device; null where the device is gone, or it is about the host."""
    indices = {device.key: device.index for device in devices}
    return [
        {
            "kind": finding.kind,
            "weight": finding.weight.value,
            "device": indices.get(finding.device),
            "pid": finding.process.pid if finding.process else None,
            "since": round(finding.since, 3),
            "title": f"{finding.where}: {finding.title}",
            "evidence": list(finding.evidence),
            "remedy": finding.remedy,
        }
        for finding in findings
    ]


def _body(snapshot: Snapshot, allocators: Allocators) -> dict[str, Any]:
    values = _Values()
    processes = {process.pid: process for process in snapshot.processes.processes}
    unattributed = {part.device: part.used_bytes for part in snapshot.processes.unattributed}
    values.problems += [text for text in (snapshot.devices.problem, snapshot.processes.problem) if text]
    return {
        "schema": SCHEMA,
        "time": round(snapshot.time, 3),
        "hostname": snapshot.host.hostname,
        "driver": values.of("driver", snapshot.devices.driver.version),
        "cuda": values.of("cuda", snapshot.devices.driver.cuda_version),
        "devices": [
            _device(device, snapshot.devices.uses, processes, unattributed.get(device.key, 0), allocators)
            for device in snapshot.devices.devices
        ],
        "host": _host(snapshot, values),
        "findings": findings_document(snapshot.findings, snapshot.devices.devices),
        "problems": values.problems,
    }


class _Values:
    """Turns readings into values, and collects the reasons of those that could not be read."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def of(self, name: str, reading: Reading[T]) -> T | None:
        if isinstance(reading, Absent) and reading.kind is AbsentKind.FAILED:
            self.problems.append(f"{name}: {reading.reason}")
        return value_of(reading)


def _tenths(value: T) -> T | float:
    return round(value, 1) if isinstance(value, float) else value


def _device(
    device: Device,
    uses: Iterable[DeviceUse],
    processes: Mapping[int, Process],
    unattributed_bytes: int,
    allocators: Allocators,
) -> dict[str, Any]:
    values = _Values()
    body = {
        "index": device.index,
        "uuid": device.uuid or None,
        "name": device.name,
        "bus_id": device.bus_id or None,
        "mig": device.mig._asdict() if device.mig else None,
        "lost": device.lost is not None,
        **_readings(device, values),
        "unattributed_bytes": None if isinstance(device.memory, Absent) or device.unlisted else unattributed_bytes,
        "processes": [
            _process(use, processes.get(use.pid), values) | {"torch": allocators.get((use.pid, device.key))}
            for use in uses
            if use.device == device.key
        ],
    }
    if device.lost is not None:  # one reason for everything that is missing, instead of the same one for each
        return body | {"problems": list(dict.fromkeys([device.lost.sentence, *device.problems]))}
    return body | {"problems": list(dict.fromkeys([*device.problems, *values.problems]))}


def _readings(device: Device, values: _Values) -> dict[str, Any]:
    """The readings that are declared to be in the document, by their names there."""
    body: dict[str, Any] = {}
    for reading in READINGS:
        if reading.document:
            value = values.of(reading.field, getattr(device, reading.field))
            *folder, name = reading.document.split(".")
            place = body.setdefault(folder[0], {}) if folder else body
            if reading.document_parts:
                place.setdefault(name, {}).update({part: getattr(value, part, None) for part in reading.document_parts})
            else:
                place[name] = _tenths(value)
    if not any(body["profile"].values()):
        body["profile"] = None
    return body


def _process(use: DeviceUse, process: Process | None, values: _Values) -> dict[str, Any]:
    known = process or Process(Identity(use.pid, None), ProcessState.VANISHED)
    host_values = values
    if known.state in _NOT_HERE:
        values.problems.append(f"process {use.pid}: {known.state.value}")
        host_values = _Values()
    name = f"process {use.pid}"
    return {
        "pid": use.pid,
        "type": use.kind,
        "used_bytes": values.of(f"{name} used_bytes", use.used_bytes),
        "sm_percent": values.of(f"{name} sm_percent", use.sm_percent),
        "user": host_values.of(f"{name} user", known.user),
        "cpu_percent": _tenths(host_values.of(f"{name} cpu_percent", known.cpu_percent)),
        "rss_bytes": host_values.of(f"{name} rss_bytes", known.rss_bytes),
        "started": known.identity.started,
        "command": host_values.of(f"{name} command", known.command),
        "probe": known.has_probe,
        "rank": known.rank.rank if known.rank else None,
        "world_size": known.rank.world_size if known.rank else None,
        "rendezvous": (known.rank.rendezvous or None) if known.rank else None,
        "owner": _owner(host_values.of(f"{name} owner", known.owner)),
    }


def _owner(owner: Owner | None) -> dict[str, str | None] | None:
    """None where nothing is known. `unread` is left out: it is usual, and the process screen says it."""
    if owner is None or not owner.is_known:
        return None
    return {("container_runtime" if name == "runtime" else name): value for name, value in owner._asdict().items()
            if name != "unread"}  # fmt: skip


def _host(snapshot: Snapshot, values: _Values) -> dict[str, Any]:
    host = snapshot.host
    memory = values.of("host memory", host.memory)
    swap = values.of("host swap", host.swap)
    return {
        "cpu_percent": _tenths(values.of("host cpu_percent", host.cpu_percent)),
        "load": values.of("host load", host.load),
        "memory_total_bytes": memory.total_bytes if memory else None,
        "memory_used_bytes": memory.used_bytes if memory else None,
        "memory_limit_bytes": host.memory_limit.total_bytes if host.memory_limit else None,
        "memory_limit_used_bytes": host.memory_limit.used_bytes if host.memory_limit else None,
        "processor_limit": host.processor_limit,
        "swap_used_bytes": swap.used_bytes if swap else None,
    }
