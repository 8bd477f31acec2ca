"""The fields that a filter of the table can compare, by the names that they have on one machine."""

from __future__ import annotations

from gputui.explain.filtering import COUNT, PERCENT, SIZE, Fields
from gputui.model.reading import value_of
from gputui.ui.drawing.fleet.rows import FleetRow, share

FLEET_FIELDS: Fields[FleetRow] = Fields(
    {
        "node": lambda row: row.place.node if row.place else None,
        "cluster": lambda row: (row.place.cluster if row.place else row.job.cluster if row.job else None) or None,
        "gpu": lambda row: row.number or None,
        "model": lambda row: row.model or None,
        "gpus": lambda row: row.gpus,
        "util": lambda row: value_of(row.readings.busy_percent),
        "tensor": lambda row: value_of(row.readings.tensor_percent),
        "mem": lambda row: value_of(row.readings.used_bytes),
        "share": lambda row: value_of(share(row.readings)),
        "temp": lambda row: value_of(row.readings.temperature_c),
        "power": lambda row: value_of(row.readings.power_w),
        "user": lambda row: row.user or None,
        "job": lambda row: row.job.name if row.job else None,
        "rank": lambda row: row.holding.rank if row.holding else None,
        "pid": lambda row: row.holding.pid if row.holding else None,
        "command": lambda row: row.holding.program if row.holding else None,
        "note": lambda row: row.note[0] or None,
    },
    searched=("node", "cluster", "model", "user", "job", "command", "note"),
    other_names={"sm": "util", "cmd": "command", "device": "gpu", "memory": "mem", "temperature": "temp"},
    quantities={
        "gpus": COUNT,
        "util": PERCENT,
        "tensor": PERCENT,
        "mem": SIZE,
        "share": PERCENT,
        "temp": COUNT,
        "power": COUNT,
        "rank": COUNT,
        "pid": COUNT,
    },
)
