"""The fleet document, `gputui.fleet/1`: nodes with their devices and processes, jobs and findings.

The names are a contract with scripts. Every name is always there; values that no exporter tells are null.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gputui.explain.fleet.missing import missing
from gputui.model.fleet.fleet import Fleet
from gputui.model.fleet.parts import FleetDevice, Holding, Job, JobName, Node, Place, Readings
from gputui.model.machine.finding import MachineFinding
from gputui.model.reading import Reading, value_of

SCHEMA = "gputui.fleet/1"


def document(fleet: Fleet, findings: Iterable[MachineFinding]) -> dict[str, Any]:
    """The fleet document, ready for `json.dumps`."""
    return {
        "schema": SCHEMA,
        "time": round(fleet.time, 3),
        "server": fleet.server,
        "scrape_interval_s": fleet.scrape_interval_s,
        "exporters": [
            {"name": found.exporter.value, "nodes": found.nodes, "devices": found.gpus} for found in fleet.found
        ],
        "missing": missing(fleet),
        "nodes": [_node(node, fleet) for node in fleet.nodes],
        "jobs": [_job(job) for job in fleet.jobs or ()],
        "findings": [_finding(finding) for finding in findings],
    }


def _node(node: Node, fleet: Fleet) -> dict[str, Any]:
    holdings = fleet.holdings.get(node.place, ())
    return {
        **_place(node.place),
        "device_count": node.gpus,
        "gone_devices": node.gone,
        **_readings(node.readings),
        "devices": [_device(device, holdings) for device in fleet.devices.get(node.place, ())],
    }


def _device(device: FleetDevice, holdings: Iterable[Holding]) -> dict[str, Any]:
    return {
        "index": int(device.number) if device.number.isdecimal() else None,
        "uuid": device.uuid,
        "name": device.name or None,
        "lost": device.is_lost,
        **_readings(device.readings),
        "processes": [_process(holding) for holding in holdings if holding.uuid == device.uuid],
    }


def _readings(readings: Readings) -> dict[str, Any]:
    return {
        "memory": {"total_bytes": _whole(readings.total_bytes), "used_bytes": _whole(readings.used_bytes)},
        "gpu_utilization_percent": _rounded(readings.busy_percent),
        "sm_active_percent": _rounded(readings.sm_active_percent),
        "tensor_percent": _rounded(readings.tensor_percent),
        "temperature_c": _rounded(readings.temperature_c),
        "power_w": _rounded(readings.power_w),
        "power_limit_w": _rounded(readings.power_limit_w),
    }


def _process(holding: Holding) -> dict[str, Any]:
    return {
        "pid": holding.pid,
        "user": holding.user or None,
        "program": holding.program or None,
        "job": _job_name(holding.job) if holding.job else None,
        "rank": holding.rank,
        "world_size": holding.world_size,
        "used_bytes": _whole(holding.used_bytes),
        "busy_percent": _rounded(holding.busy_percent),
        "torch_reserved_bytes": _whole(holding.torch_reserved_bytes),
        "torch_allocated_bytes": _whole(holding.torch_allocated_bytes),
    }


def _job(job: Job) -> dict[str, Any]:
    return {
        "cluster": job.name.cluster or None,
        **_job_name(job.name),
        "user": job.user or None,
        "nodes": job.nodes,
        "devices": job.gpus,
        "processes": job.processes,
        "used_bytes": _whole(job.used_bytes),
        "gpu_utilization_percent": _rounded(job.busy_percent),
    }


def _job_name(name: JobName) -> dict[str, Any]:
    return {"kind": name.kind, "name": name.name}


def _finding(finding: MachineFinding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "weight": finding.weight.value,
        **(_place(finding.node) if finding.node else {"cluster": None, "node": None}),
        "since": round(finding.since, 3),
        "title": f"{finding.where}: {finding.title}",
        "evidence": list(finding.evidence),
        "remedy": finding.remedy,
    }


def _place(place: Place) -> dict[str, Any]:
    return {"cluster": place.cluster or None, "node": place.node}


def _whole(reading: Reading[float]) -> int | None:
    value = value_of(reading)
    return None if value is None else round(value)


def _rounded(reading: Reading[float]) -> float | None:
    value = value_of(reading)
    return None if value is None else round(value, 1)
