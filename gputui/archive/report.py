"""What was recorded between two times: GPU-hours of devices and of users with their jobs, processes, and findings."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gputui.archive.place import file_to_read
from gputui.archive.store import ROLLED_S, reading, records
from gputui.model.decode import decode
from gputui.model.past import Past, PastFinding, PastGpu, PastProcess, Stretch

SCHEMA = "gputui.report/1"


class DeviceHours(NamedTuple):
    """A GPU's time in hours: `watched` is all that was recorded, of which it was active, or held and idle."""

    device: str
    name: str
    watched: float
    active: float
    idle_held: float

    @property
    def idle(self) -> float:
        """Hours in which the GPU was neither active nor held."""
        return max(0.0, self.watched - self.active - self.idle_held)  # sums of halves and thirds


class HolderHours(NamedTuple):
    """GPU-hours of a user's job, "" for what is in no job. `most_held_bytes` is of all GPUs together, at one time."""

    user: str
    job: str
    active: float
    idle_held: float
    most_held_bytes: int


class Report(NamedTuple):
    """Everything about a span of time; `begin` and `end` are the first and the last recorded time in it, 0 without."""

    begin: float
    end: float
    devices: Sequence[DeviceHours]
    holders: Sequence[HolderHours]
    findings: Sequence[PastFinding]
    processes: Sequence[PastProcess]


class _Device(NamedTuple):
    id: int
    label: str
    name: str


class _DeviceTime(NamedTuple):
    time: int
    span_s: float
    utilization_percent: float | None
    used_bytes: int | None


_DEVICES = """
SELECT label, name, sum(span_s) / 3600, sum(active_s) / 3600, sum(idle_held_s) / 3600
FROM device_time JOIN device ON device.id = device_time.device WHERE time > ? AND time <= ?
GROUP BY device.id ORDER BY CAST(label AS INTEGER)
"""
_HOLDERS = """
SELECT user, job, sum(active_s) / 3600, sum(idle_held_s) / 3600, max(held_bytes) FROM (
    SELECT time, holder, sum(active_s) AS active_s, sum(idle_held_s) AS idle_held_s, sum(held_bytes) AS held_bytes
    FROM holder_time WHERE time > ? AND time <= ? GROUP BY time, holder)
JOIN holder ON holder.id = holder WHERE ? IN (user, '')
GROUP BY holder ORDER BY sum(active_s) + sum(idle_held_s) DESC, user, job
"""
_FINDINGS = """
SELECT kind, place, title, remedy, since, until FROM finding WHERE until > ? AND since <= ? ORDER BY since
"""
_PROCESSES = """
SELECT label, pid, started, user, job, command, since, until, active, held_bytes, allocated_bytes
FROM process JOIN device ON device.id = device
WHERE until > ? AND since <= ? AND ? IN (user, '') ORDER BY held_bytes DESC, since, pid
"""
_BOUNDS = "SELECT (SELECT min(time) FROM device_time), (SELECT max(time) FROM device_time)"  # each alone has an index
_STRETCHES = """
SELECT time, span_s, utilization_percent, used_bytes FROM device_time
WHERE device = ? AND time > ? AND time < ? ORDER BY time
"""


def report(database: sqlite3.Connection, begin: float, end: float, user: str = "") -> Report:
    """What was recorded after `begin` until `end`; only the holders and processes of `user`, unless that is ""."""
    first, last = database.execute(
        "SELECT min(time), max(time) FROM device_time WHERE time > ? AND time <= ?", (begin, end)
    ).fetchone()
    return Report(
        begin=decode(float, first or 0.0),
        end=decode(float, last or 0.0),
        devices=list(records(DeviceHours, database.execute(_DEVICES, (begin, end)))),
        holders=list(records(HolderHours, database.execute(_HOLDERS, (begin, end, user)))),
        findings=_findings(database, begin, end),
        processes=_processes(database, begin, end, user),
    )


def read_past(begin: float, end: float) -> Past:
    """What the newest record of this machine has between two times. Raises `GputuiError` where there is no record."""
    with reading(Path(file_to_read(os.environ))) as database:
        return past(database, begin, end)


def past(database: sqlite3.Connection, begin: float, end: float) -> Past:
    """What was recorded between two times, as a screen shows it."""
    first, last = database.execute(_BOUNDS).fetchone()
    devices = records(_Device, database.execute("SELECT id, label, name FROM device ORDER BY CAST(label AS INTEGER)"))
    gpus = [PastGpu(each.label, each.name, tuple(_stretches(database, each.id, begin, end))) for each in devices]
    return Past(
        begin,
        end,
        [gpu for gpu in gpus if gpu.stretches],
        _processes(database, begin, end),
        _findings(database, begin, end),
        decode(float, first or 0.0),
        decode(float, last or 0.0),
    )


def _processes(database: sqlite3.Connection, begin: float, end: float, user: str = "") -> list[PastProcess]:
    return list(records(PastProcess, database.execute(_PROCESSES, (begin, end, user))))


def _findings(database: sqlite3.Connection, begin: float, end: float) -> list[PastFinding]:
    return list(records(PastFinding, database.execute(_FINDINGS, (begin, end))))


def _stretches(database: sqlite3.Connection, device: int, begin: float, end: float) -> Iterator[Stretch]:
    """A row's time is the end of what it describes; where a row joins five minutes, its time is their beginning."""
    (rolled_until,) = database.execute("SELECT until FROM rolled").fetchone()
    rows = database.execute(_STRETCHES, (device, begin - ROLLED_S, end + ROLLED_S))
    for row in records(_DeviceTime, rows):
        is_rolled = row.time < decode(int, rolled_until)
        from_s, until_s = (row.time, row.time + ROLLED_S) if is_rolled else (row.time - row.span_s, row.time)
        if until_s > begin and from_s < end:
            yield Stretch(max(from_s, begin), min(until_s, end), row.utilization_percent, row.used_bytes)


def document(found: Report) -> dict[str, Any]:
    """The report as JSON, `gputui.report/1`; hours are GPU-hours."""
    return {
        "schema": SCHEMA,
        "begin": found.begin,
        "end": found.end,
        "devices": [
            {
                "device": each.device,
                "name": each.name,
                "watched_hours": round(each.watched, 4),
                "active_hours": round(each.active, 4),
                "idle_held_hours": round(each.idle_held, 4),
                "idle_hours": round(each.idle, 4),
            }
            for each in found.devices
        ],
        "users": list(_holder_documents(found)),
        "processes": [{**each._asdict(), "active": each.active or None} for each in found.processes],
        "findings": [each._asdict() for each in found.findings],
    }


def _holder_documents(found: Report) -> Iterator[dict[str, Any]]:
    for each in found.holders:
        yield {
            "user": each.user or None,
            "job": each.job or None,
            "active_hours": round(each.active, 4),
            "idle_held_hours": round(each.idle_held, 4),
            "most_held_bytes": each.most_held_bytes,
        }
