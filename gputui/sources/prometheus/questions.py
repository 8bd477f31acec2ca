"""What is asked: about all nodes once a scrape interval, about what is on screen in detail, and for findings seldom."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from gputui.explain.fleet import thresholds
from gputui.model.fleet.exporters import Exporter, Quantity
from gputui.model.fleet.parts import JobName, Place
from gputui.sources.prometheus.expressions import (
    ALL,
    EXPORTER,
    JOB,
    JOB_LABELS,
    KIND,
    NODE,
    PROCESS,
    Part,
    job_info,
    labelled,
    per_gpu,
    per_node,
    placed,
    quoted,
    union,
    with_info,
)
from gputui.sources.prometheus.metrics import (
    ALLOCATED,
    BUSY_BY_PROCESS,
    CHANGES,
    INFO,
    JOB_KINDS,
    METRICS,
    RESERVED,
    USED_BY_PROCESS,
)

COUNT, NODES_OF, PROCESSES_OF, INTERVAL = "count", "nodes", "processes", "interval"
"""What the label `gputui_quantity` says beyond the names of quantities."""
INTERVAL_OVER_S = 120

_BY_NODE = {
    Quantity.BUSY: "avg",
    Quantity.SM_ACTIVE: "avg",
    Quantity.TENSOR: "avg",
    Quantity.USED: "sum",
    Quantity.TOTAL: "sum",
    Quantity.POWER: "sum",
    Quantity.LIMIT: "sum",
    Quantity.TEMPERATURE: "max",
}
"""How GPUs become one figure of their node."""
_INFO_LABELS = f"user, program, rank, world_size, {KIND}, {JOB}"
_OF_PROCESSES = (USED_BY_PROCESS, BUSY_BY_PROCESS, RESERVED, ALLOCATED)


class Asked(str, Enum):
    """The questions; those about findings have the names of their rules."""

    FOUND = "found"
    NODES = "nodes"
    DEVICES = "devices"
    HOLDINGS = "holdings"
    JOBS = "jobs"
    RANKS = "ranks"
    HISTORY = "history"
    GONE = "gone"
    LOST = "lost"
    STUCK = "stuck_rank"
    IDLE_IN_JOB = "idle_in_job"
    RANK_MORE = "rank_more"
    IDLE_HELD = "idle_held"


ABOUT_FINDINGS = (Asked.GONE, Asked.LOST, Asked.STUCK, Asked.IDLE_IN_JOB, Asked.RANK_MORE, Asked.IDLE_HELD)


class Question(NamedTuple):
    """A query, "" where no exporter has what it needs; `nodes` or the `job` that it is about."""

    asked: Asked
    expression: str
    nodes: tuple[Place, ...] = ()
    job: JobName | None = None


def found(names: frozenset[str]) -> Question:
    """Which exporters there are, on how many nodes, and how often they are scraped."""
    parts: list[str] = []
    for exporter in Exporter:
        gpus = per_gpu(Quantity.PRESENT, names, of=exporter)
        if gpus:
            nodes = f"count({per_node('count', gpus)})"
            parts.append(labelled(union(((COUNT, f"count({gpus})"), (NODES_OF, nodes))), EXPORTER, exporter.value))
    present = next((row.names[0] for row in METRICS[Quantity.PRESENT] if names.issuperset(row.names)), "")
    if present:
        parts.append(union(((INTERVAL, f"quantile(0.5, count_over_time({present}[{INTERVAL_OVER_S}s]))"),)))
    return Question(Asked.FOUND, " or ".join(parts))


def nodes(names: frozenset[str], *, is_whole: bool = False) -> Question:
    """Every node, with its GPUs together; with `is_whole` also what no screen shows."""
    rows = [(COUNT, per_node("count", gpus))] if (gpus := per_gpu(Quantity.PRESENT, names)) else []
    for quantity, function in _BY_NODE.items():
        gpus = per_gpu(quantity, names) if is_whole or quantity is not Quantity.SM_ACTIVE else ""
        if gpus:
            rows.append((quantity.value, per_node(function, gpus)))
    return Question(Asked.NODES, union(rows))


def devices(names: frozenset[str], places: tuple[Place, ...]) -> Question:
    """The GPUs of some nodes; of all without `places`."""
    part = _on(places)
    rows = [(Quantity.PRESENT.value, per_gpu(Quantity.PRESENT, names, part, "gpu, model_name"))]
    rows += [(quantity.value, per_gpu(quantity, names, part)) for quantity in (*_BY_NODE, Quantity.LOST)]
    return Question(Asked.DEVICES, placed(union(rows)), places)


def holdings(names: frozenset[str], places: tuple[Place, ...]) -> Question:
    """The processes on some nodes; on all without `places`."""
    return Question(Asked.HOLDINGS, _processes(names, _on(places), ALL), places)


def ranks(names: frozenset[str], job: JobName) -> Question:
    """The processes of one job, wherever they are."""
    labels = [labels for kind, labels in JOB_KINDS if kind == job.kind]
    names_of = job.name.split("/") if len(labels[0]) > 1 else [job.name]
    questions = [
        _processes(names, ALL, Part(matching=",".join(
            f"{label}={quoted(name)}" for label, name in zip(each[-len(names_of):], names_of, strict=False)
        )))
        for each in labels
    ]  # fmt: skip
    return Question(Asked.RANKS, " or ".join(filter(None, questions)), job=job)


def jobs(names: frozenset[str]) -> Question:
    """Every job, with what it holds on how many GPUs."""
    if not names.issuperset((INFO, USED_BY_PROCESS)):
        return Question(Asked.JOBS, "")
    info = job_info()
    used = with_info(USED_BY_PROCESS, info, f"{KIND}, {JOB}, user")
    by, users = f"by ({JOB_LABELS})", f"by ({JOB_LABELS}, user)"
    pages = placed(f"count by ({JOB_LABELS}, node, instance) ({used})")
    rows = [
        (PROCESSES_OF, f"count {users} (count {users[:-1]}, instance, pid) ({info}))"),
        (NODES_OF, f"count {by} (count by ({JOB_LABELS}, {NODE}) ({pages}))"),
        (COUNT, f"count {by} (count by ({JOB_LABELS}, UUID) ({used}))"),
        (Quantity.USED.value, f"sum {by} ({used})"),
    ]
    if busy := per_gpu(Quantity.BUSY, names):
        rows.append((Quantity.BUSY.value, f"avg {by} ({_on_gpus_of_jobs(used, busy)})"))
    return Question(Asked.JOBS, union(rows))


def history(names: frozenset[str], places: tuple[Place, ...]) -> Question:
    """How busy some nodes have been; for a range of times."""
    busy = per_gpu(Quantity.BUSY, names, _on(places))
    return Question(Asked.HISTORY, per_node("avg", busy) if busy else "", places)


def about_finding(asked: Asked, names: frozenset[str], grace_s: float) -> Question:
    """What a rule needs, of all nodes: only what may be a finding comes back. `grace_s`: a scrape may be missed."""
    return Question(asked, _FINDINGS[asked](names, grace_s))


def _gone(names: frozenset[str], grace_s: float) -> str:
    """GPUs that were there in the last hour, and were not lately."""
    before = per_gpu(Quantity.PRESENT, names, Part(over=_time(thresholds.GONE_WITHIN_S)), "gpu")
    lately = per_gpu(Quantity.PRESENT, names, Part(over=_time(grace_s)))
    return before and placed(f"({before}) unless on (UUID) ({lately})")


def _lost(names: frozenset[str], _grace_s: float) -> str:
    lost = per_gpu(Quantity.LOST, names, keep="gpu")
    return lost and placed(f"({lost}) == 1")


def _stuck(names: frozenset[str], _grace_s: float) -> str:
    """Ranks whose allocator does nothing while their GPU counts as busy."""
    busy = "gputui_device_busy_ratio"
    if not names.issuperset((CHANGES, busy, INFO)):
        return ""
    over = _time(thresholds.STUCK_FOR_S)
    still = f"(rate({CHANGES}[{over}]) == 0)"
    with_labels = with_info(still, job_info(), f"{KIND}, {JOB}, user")
    is_busy = f"min_over_time({busy}[{over}]) > {thresholds.BUSY_SHARE}"
    was_there = f"{CHANGES} offset {over}"
    return placed(f"({with_labels}) and on (cluster, instance, UUID) ({is_busy}) and on ({PROCESS}) ({was_there})")


def _idle_in_job(names: frozenset[str], _grace_s: float) -> str:
    """The GPUs of jobs of which some GPUs work and some do not, with their mean use."""
    over = _time(thresholds.IDLE_IN_JOB_FOR_S)
    busy = per_gpu(Quantity.BUSY, names, Part(over=over, function="avg_over_time"))
    if not busy or not names.issuperset((INFO, USED_BY_PROCESS)):
        return ""
    was_there = f"{USED_BY_PROCESS} and on ({PROCESS}) {USED_BY_PROCESS} offset {over}"
    used = with_info(f"({was_there})", job_info(), f"{KIND}, {JOB}, user")
    each = _on_gpus_of_jobs(used, busy)
    some = (f"min by ({JOB_LABELS}) ({each}) < {thresholds.IDLE_SHARE}",
            f"max by ({JOB_LABELS}) ({each}) > {thresholds.WORKING_SHARE}")  # fmt: skip
    return placed(f"({each}) and on ({JOB_LABELS}) ({some[0]}) and on ({JOB_LABELS}) ({some[1]})")


def _rank_more(names: frozenset[str], _grace_s: float) -> str:
    """What each rank holds in jobs of which one holds more than the median by a share."""
    if not names.issuperset((INFO, USED_BY_PROCESS)):
        return ""
    info = job_info(Part(matching='rank!=""'))
    used = with_info(USED_BY_PROCESS, info, f"{KIND}, {JOB}, user, rank")
    each = f"sum by ({JOB_LABELS}, node, instance, user, rank, pid) ({used})"
    usual = f"{1 + thresholds.MORE_SHARE} * quantile by ({JOB_LABELS}) (0.5, {each})"
    return placed(f"({each}) and on ({JOB_LABELS}) (max by ({JOB_LABELS}) ({each}) > {usual})")


def _idle_held(names: frozenset[str], _grace_s: float) -> str:
    """Memory of GPUs that was held for an hour in which they did next to nothing."""
    over = _time(thresholds.HELD_FOR_S)
    busy = per_gpu(Quantity.BUSY, names, Part(over=over, function="max_over_time"), "gpu")
    held = per_gpu(Quantity.USED, names, Part(over=over, function="min_over_time"), "gpu")
    before = per_gpu(Quantity.PRESENT, names, Part(offset=over))
    if not busy or not held:
        return ""
    return placed(
        f"(({held}) > {thresholds.HELD_BYTES}) and on (UUID) (({busy}) < {thresholds.USED_SHARE})"
        f" and on (UUID) ({before})"
    )


_FINDINGS = {
    Asked.GONE: _gone,
    Asked.LOST: _lost,
    Asked.STUCK: _stuck,
    Asked.IDLE_IN_JOB: _idle_in_job,
    Asked.RANK_MORE: _rank_more,
    Asked.IDLE_HELD: _idle_held,
}


def _processes(names: frozenset[str], part: Part, info_part: Part) -> str:
    """Readings of processes with all that is known of these; what has no info only where any process is wanted."""
    rows = []
    plain = part._replace(matching=info_part.matching)
    info = f"({job_info(plain)}) or on ({PROCESS}) {plain.of(INFO)}" if INFO in names else ""
    for name in _OF_PROCESSES:
        if name not in names:
            continue
        reading = part.of(name)
        told = f"({with_info(reading, info, _INFO_LABELS)})" if info else ""
        untold = f"({reading} unless on ({PROCESS}) {plain.of(INFO)})" if info else reading
        rows.append((name, placed(told if info_part.matching else " or ".join(filter(None, (told, untold))))))
    return union(rows)


def _on_gpus_of_jobs(used: str, busy: str) -> str:
    """How busy the GPUs of each job are."""
    gpus = f"max by ({JOB_LABELS}, node, instance, UUID, gpu, user) ({used})"
    return f"({gpus}) * 0 + on (UUID) group_left () max by (UUID) ({busy})"


def _time(seconds: float) -> str:
    return f"{round(seconds)}s"


def _on(places: Iterable[Place]) -> Part:
    return Part(nodes=tuple(sorted({place.node for place in places})))
