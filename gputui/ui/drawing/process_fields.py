"""The fields that a filter of the process table can compare; a separate module, because the first frame needs none."""

from __future__ import annotations

from gputui.explain.filtering import Fields
from gputui.model.reading import value_of
from gputui.ui.drawing.process_rows import ProcessRow

PROCESS_FIELDS: Fields[ProcessRow] = Fields(
    {
        "pid": lambda row: row.process.pid if row.process else None,
        "user": lambda row: value_of(row.process.user) if row.process else None,
        "command": lambda row: value_of(row.process.command) if row.process else None,
        "gpu": lambda row: row.device,
        "type": lambda row: row.use.kind if row.use else None,
        "mem": lambda row: value_of(row.used_bytes),
        "sm": lambda row: value_of(row.use.sm_percent) if row.use else None,
        "cpu": lambda row: value_of(row.cpu_percent),
        "rss": lambda row: value_of(row.rss_bytes),
        "rank": lambda row: row.process.rank.rank if row.process and row.process.rank else None,
        "state": lambda row: row.process.state.value if row.process else None,
        "probe": lambda row: ("yes" if row.process.has_probe else "no") if row.process else None,
    },
    searched=("command", "user", "pid"),
    other_names={"cmd": "command", "device": "gpu", "memory": "mem"},
)
