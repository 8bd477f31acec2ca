"""The questions: about all nodes once a scrape interval, and about what is on screen in detail."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from gputui.model.fleet.exporters import Exporter, Quantity
from gputui.model.fleet.parts import JobName, Place
from gputui.sources.prometheus.expressions import (
    ALL,
    ALL_JOB_LABELS,
    EXPORTER,
    PROCESS,
    Part,
    labelled,
    of_jobs,
    on_gpus,
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
    INFO,
    JOB_KINDS,
    METRICS,
    RESERVED,
    USED_BY_PROCESS,
    Known,
)

COUNT, FAILED, NODES_OF, PROCESSES_OF, INTERVAL, KIND_OF = "count", "failed", "nodes", "processes", "interval", "kind "
"""Values of the label `gputui_quantity` beside the names of quantities."""
INTERVAL_OVER_S = 120

_BY_NODE = {
    Quantity.BUSY: "avg",
    Quantity.USED: "sum",
    Quantity.TENSOR: "avg",
    Quantity.POWER: "sum",
    Quantity.TEMPERATURE: "max",
    Quantity.TOTAL: "sum",
    Quantity.LIMIT: "sum",
    Quantity.SM_ACTIVE: "avg",
}
"""The function that makes one figure of a node from those of its GPUs."""
FIRST = (Quantity.BUSY, Quantity.USED)
"""The quantities in the first picture: a large server takes seconds for all quantities."""
THEN = (Quantity.TENSOR, Quantity.POWER, Quantity.TEMPERATURE)
SELDOM = (Quantity.TOTAL, Quantity.LIMIT)
"""The quantities that hardly ever change."""
UNSHOWN = (Quantity.SM_ACTIVE,)
_INFO_LABELS = f"user, program, rank, world_size, {ALL_JOB_LABELS}"
_OF_PROCESSES = (USED_BY_PROCESS, BUSY_BY_PROCESS, RESERVED, ALLOCATED)


class Asked(str, Enum):
    """The kinds of questions; those for findings have the names of their rules."""

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


class Question(NamedTuple):
    """A query (`expression`, "" if no exporter has what it needs), and the `nodes` or the `job` that it is about."""

    asked: Asked
    expression: str
    nodes: tuple[Place, ...] = ()
    job: JobName | None = None


def found(known: Known) -> Question:
    """Which exporters there are, on how many nodes, how often they are scraped, and which kinds of jobs they know."""
    parts: list[str] = []
    for exporter in Exporter:
        gpus = per_gpu(Quantity.PRESENT, known.names, of=exporter)
        if gpus:
            rows = ((COUNT, f"count({gpus})"), (NODES_OF, f"count({per_node('count', gpus)})"))
            parts.append(labelled(union(rows), EXPORTER, exporter.value))
    present = next((row.names[0] for row in METRICS[Quantity.PRESENT] if known.has(*row.names)), "")
    if present:
        parts.append(union(((INTERVAL, f"quantile(0.5, count_over_time({present}[{INTERVAL_OVER_S}s]))"),)))
    if known.has(INFO):
        parts.append(union((f"{KIND_OF}{kind.key}", f'count({INFO}{{{kind.key}!=""}})') for kind in JOB_KINDS))
    return Question(Asked.FOUND, " or ".join(parts))


def nodes(known: Known, quantities: Iterable[Quantity], *, is_counted: bool = False) -> Question:
    """Some quantities of each node, over all its GPUs; with `is_counted` also the number of GPUs, and which nodes' last
    scrape has failed: the server goes on with the figures before a failed scrape for five minutes."""
    present = per_gpu(Quantity.PRESENT, known.names)
    rows = []
    if is_counted and present:
        failed = f"(up == 0) and on (cluster, instance) ({present})"
        rows = [(COUNT, per_node("count", present)), (FAILED, per_node("max", failed))]
    of_gpus = {quantity: per_gpu(quantity, known.names) for quantity in quantities}
    rows += [(quantity.value, per_node(_BY_NODE[quantity], gpus)) for quantity, gpus in of_gpus.items() if gpus]
    return Question(Asked.NODES, union(rows))


def devices(known: Known, places: tuple[Place, ...]) -> Question:
    """The GPUs of some nodes; of all without `places`."""
    part = _on(places)
    rows = [(Quantity.PRESENT.value, per_gpu(Quantity.PRESENT, known.names, part, "gpu, model_name"))]
    rows += [(quantity.value, per_gpu(quantity, known.names, part)) for quantity in (*_BY_NODE, Quantity.LOST)]
    expression = union(rows)
    return Question(Asked.DEVICES, expression and placed(expression), places)


def holdings(known: Known, places: tuple[Place, ...]) -> Question:
    """The processes on some nodes; on all without `places`."""
    part = _on(places)
    return Question(Asked.HOLDINGS, _processes(known, part, part, is_told=False), places)


def ranks(known: Known, job: JobName) -> Question:
    """The processes of one job on all nodes."""
    parts = []
    for kind in JOB_KINDS:
        if kind.words == job.kind:
            names = job.name.split("/", maxsplit=len(kind.labels) - 1)
            told = zip(kind.labels[-len(names) :], names, strict=True)
            info = Part(matching=",".join(f"{label}={quoted(name)}" for label, name in told))
            parts.append(_processes(known, ALL, info, is_told=True))
    return Question(Asked.RANKS, " or ".join(filter(None, parts)), job=job)


def jobs(known: Known) -> Question:
    """What each job has on each exporter's page; nodes get their names last, which is fastest."""
    if not known.has(INFO, USED_BY_PROCESS) or not known.kinds:
        return Question(Asked.JOBS, "")

    def used(labels: str, info: str) -> str:
        return with_info(USED_BY_PROCESS, f"{labels}, user", info)

    def processes(labels: str, info: str) -> str:
        return f"count by ({_page(labels)}) ({info})"

    def gpus(labels: str, info: str) -> str:
        return f"count by ({_page(labels)}) (count by ({_page(labels)}, UUID) ({used(labels, info)}))"

    def memory(labels: str, info: str) -> str:
        return f"sum by ({_page(labels)}) ({used(labels, info)})"

    parts = ((PROCESSES_OF, processes), (COUNT, gpus), (Quantity.USED.value, memory))
    rows = [(name, placed(of_jobs(known.kinds, build))) for name, build in parts]
    if busy := per_gpu(Quantity.BUSY, known.names):

        def mean(labels: str, info: str) -> str:
            return f"avg by (cluster, {labels}) ({on_gpus(used(labels, info), labels, busy)})"

        rows.append((Quantity.BUSY.value, of_jobs(known.kinds, mean)))
    return Question(Asked.JOBS, union(rows))


def history(known: Known, places: tuple[Place, ...]) -> Question:
    """How busy some nodes are, to be asked for a range of times."""
    busy = per_gpu(Quantity.BUSY, known.names, _on(places))
    return Question(Asked.HISTORY, per_node("avg", busy) if busy else "", places)


def _processes(known: Known, part: Part, info_part: Part, *, is_told: bool) -> str:
    """Readings of processes with the labels of their info; with `is_told`, only of processes that have such an info."""
    rows = []
    info = info_part.of(INFO) if known.has(INFO) else ""
    for name in _OF_PROCESSES:
        if known.has(name):
            reading = part.of(name)
            told = f"({with_info(reading, _INFO_LABELS, info)})" if info else ""
            untold = f"({reading} unless on ({PROCESS}) {info})" if info else reading
            rows.append((name, told if is_told else " or ".join(filter(None, (told, untold)))))
    expression = union(rows)
    return expression and placed(expression)


def _page(labels: str) -> str:
    """The labels that identify the part of a job on one exporter's page."""
    return f"cluster, {labels}, user, node, instance"


def _on(places: Iterable[Place]) -> Part:
    return Part(nodes=tuple(sorted({place.node for place in places})))
