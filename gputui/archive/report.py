"""What was recorded between two times, added up: GPU-hours of devices and of users with their jobs, and findings."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

SCHEMA = "gputui.report/1"


class DeviceHours(NamedTuple):
    """A GPU's time, in hours."""

    device: str
    name: str
    watched: float
    active: float
    idle_held: float

    @property
    def idle(self) -> float:
        """Neither active nor held."""
        return self.watched - self.active - self.idle_held


class HolderHours(NamedTuple):
    """What a user had of all GPUs, for one job or for what is in none."""

    user: str
    job: str
    active: float
    idle_held: float
    most_held_bytes: int


class PastFinding(NamedTuple):
    """A finding, and when it was seen first and last."""

    kind: str
    where: str
    title: str
    remedy: str
    since: float
    until: float


class Report(NamedTuple):
    """Everything about a span of time; `begin` and `end` are those of what was recorded in it, 0 without any."""

    begin: float
    end: float
    devices: Sequence[DeviceHours]
    holders: Sequence[HolderHours]
    findings: Sequence[PastFinding]


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


def report(database: sqlite3.Connection, begin: float, end: float, user: str = "") -> Report:
    """What was recorded after `begin` until `end`; of holders only those of `user`, unless that is ""."""
    first, last = database.execute(
        "SELECT min(time), max(time) FROM device_time WHERE time > ? AND time <= ?", (begin, end)
    ).fetchone()
    return Report(
        begin=first or 0.0,
        end=last or 0.0,
        devices=[DeviceHours(*row) for row in database.execute(_DEVICES, (begin, end))],
        holders=[HolderHours(*row) for row in database.execute(_HOLDERS, (begin, end, user))],
        findings=[PastFinding(*row) for row in database.execute(_FINDINGS, (begin, end))],
    )


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
