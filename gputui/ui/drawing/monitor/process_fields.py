"""The fields that a filter of the process table can compare; a separate module, because the first frame needs none."""

from __future__ import annotations

from collections.abc import Callable

from gputui.explain.filtering import COUNT, DURATION, PERCENT, SIZE, Fields
from gputui.model.reading import value_of
from gputui.ui.drawing.monitor.process_rows import ProcessRow


def _share(row: ProcessRow) -> float | None:
    used_bytes = value_of(row.used_bytes)
    return 100 * used_bytes / row.device_total_bytes if used_bytes is not None and row.device_total_bytes else None


def _running_s(row: ProcessRow) -> float | None:
    started = row.process.identity.started if row.process else None
    return None if started is None else row.time - started


def _of_owner(name: str) -> Callable[[ProcessRow], str | None]:
    def value(row: ProcessRow) -> str | None:
        owner = value_of(row.process.owner) if row.process else None
        text: str | None = getattr(owner, name) if owner else None
        return text

    return value


_OWNER_FIELDS = {
    "job": "job",
    "step": "step",
    "pod": "pod",
    "namespace": "namespace",
    "container": "container",
    "unit": "unit",
    "ray": "ray_job",
    "env": "environment",
    "session": "session",
}
"""Fields of a filter, and the attributes of the process's `Owner` that they compare."""

PROCESS_FIELDS: Fields[ProcessRow] = Fields(
    {
        "pid": lambda row: row.process.pid if row.process else None,
        "user": lambda row: value_of(row.process.user) if row.process else None,
        "command": lambda row: value_of(row.process.command) if row.process else None,
        "gpu": lambda row: row.device,
        "type": lambda row: row.use.kind if row.use else None,
        "mem": lambda row: value_of(row.used_bytes),
        "share": _share,
        "sm": lambda row: value_of(row.use.sm_percent) if row.use else None,
        "cpu": lambda row: value_of(row.cpu_percent),
        "rss": lambda row: value_of(row.rss_bytes),
        "workers": lambda row: row.process.workers.count if row.process and row.process.workers else None,
        "time": _running_s,
        "rank": lambda row: row.process.rank.rank if row.process and row.process.rank else None,
        **{name: _of_owner(field) for name, field in _OWNER_FIELDS.items()},
        "state": lambda row: row.process.state.value if row.process else None,
        "probe": lambda row: ("yes" if row.process.has_probe else "no") if row.process else None,
    },
    searched=("command", "user", "pid", "job", "pod", "container", "unit"),
    other_names={"cmd": "command", "environment": "env", "device": "gpu", "memory": "mem"},
    quantities={
        "pid": COUNT,
        "mem": SIZE,
        "share": PERCENT,
        "sm": PERCENT,
        "cpu": PERCENT,
        "rss": SIZE,
        "workers": COUNT,
        "time": DURATION,
        "rank": COUNT,
    },
)
