"""Since when each GPU has been held and not used, read from the record that another running gputui writes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from gputui.archive.place import file_to_read
from gputui.errors import GputuiError

_FRESH_S = 60.0
"""A record whose newest look is older than this has ended."""
_WATCHED_SHARE = 0.9
"""The least share of the idle time that looks must cover: a GPU may have been used while nobody recorded."""

_SINCE = """
WITH used AS (SELECT id, uuid, coalesce((SELECT time FROM device_time WHERE device = device.id
    AND idle_held_s < 0.99 * span_s ORDER BY time DESC LIMIT 1), 0) AS last FROM device)
SELECT uuid, min(time), sum(span_s), max(time) FROM used CROSS JOIN device_time
ON time > last AND device = id GROUP BY id
"""
"""Sums the rows of each GPU since its last use, and reads no rows older than the earliest of these uses."""


class _Since(NamedTuple):
    uuid: str
    since: float
    watched_s: float
    newest: float


def idle_since(now: float, path: str = "") -> Mapping[str, float]:
    """Since when (epoch seconds) each GPU has been held and not used, by `Device.key`; empty where nobody records.

    `path` is "" for the usual record. SQLite is imported only if that exists: otherwise each start would pay for it.
    """
    path = path or file_to_read(os.environ)
    if not os.access(path, os.R_OK):
        return {}
    from pathlib import Path

    from gputui.archive.store import reading, records

    try:
        with reading(Path(path)) as database:
            rows = list(records(_Since, database.execute(_SINCE)))
    except GputuiError:
        return {}
    return {
        row.uuid: row.since
        for row in rows
        if 0 <= now - row.newest < _FRESH_S and row.watched_s >= _WATCHED_SHARE * (row.newest - row.since)
    }
