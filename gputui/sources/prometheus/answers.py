"""Makes the parts of a fleet from series: labels say what a number means, and impossible numbers are left out."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from gputui.model.fleet.exporters import Exporter, Found, Quantity
from gputui.model.fleet.parts import (
    NOT_EXPORTED,
    FleetDevice,
    Holding,
    Job,
    JobName,
    Node,
    Place,
    Readings,
    Sign,
)
from gputui.model.reading import Reading
from gputui.sources.prometheus.decode import Series
from gputui.sources.prometheus.expressions import EXPORTER, NODE, QUANTITY
from gputui.sources.prometheus.metrics import (
    ALLOCATED,
    BUSY_BY_PROCESS,
    JOB_KINDS,
    RESERVED,
    USED_BY_PROCESS,
    JobKind,
)
from gputui.sources.prometheus.questions import (
    COUNT,
    INTERVAL,
    INTERVAL_OVER_S,
    KIND_OF,
    NODES_OF,
    PROCESSES_OF,
    Asked,
)

P = TypeVar("P")
K = TypeVar("K")
Labels = Mapping[str, str]

SHORTEST_S, USUAL_S, LONGEST_S = 1.0, 15.0, 60.0
"""Bounds of a scrape interval; the usual one is that of Prometheus' examples."""
NO_NAME = "(without an address)"


def found_of(series: Iterable[Series]) -> tuple[Found, ...]:
    """The exporters that the server knows, each with its nodes and GPUs."""
    counts: dict[tuple[str, str], int] = {}
    for one in series:
        counts[one.labels.get(EXPORTER, ""), one.labels.get(QUANTITY, "")] = round(one.value)
    return tuple(
        Found(exporter, counts.get((exporter.value, NODES_OF), 0), counts[exporter.value, COUNT])
        for exporter in Exporter
        if counts.get((exporter.value, COUNT))
    )


def interval_of(series: Iterable[Series]) -> float:
    """Seconds from scrape to scrape, by the number of scrapes in `INTERVAL_OVER_S`."""
    counts = [one.value for one in series if one.labels.get(QUANTITY) == INTERVAL and one.value > 0]
    return min(LONGEST_S, max(SHORTEST_S, INTERVAL_OVER_S / counts[0])) if counts else USUAL_S


def kinds_of(series: Iterable[Series]) -> tuple[JobKind, ...]:
    """The kinds of jobs of which there are any."""
    told = {one.labels.get(QUANTITY) for one in series if one.value}
    return tuple(kind for kind in JOB_KINDS if f"{KIND_OF}{kind.key}" in told)


NodeValues = Mapping[Place, Mapping[str, float]]
"""The quantities of each node, by their names."""


def node_values(series: Iterable[Series]) -> NodeValues:
    """The quantities of each node in an answer."""
    return _by(series, place_of)


def nodes_of(values: NodeValues) -> tuple[Node, ...]:
    """The nodes in natural order, without names that have no GPU of their own."""
    return tuple(
        Node(place, round(of[COUNT]), _readings(of))
        for place, of in sorted(values.items(), key=lambda item: item[0].order)
        if of.get(COUNT)
    )


def devices_of(series: Iterable[Series]) -> dict[Place, tuple[FleetDevice, ...]]:
    """The GPUs by node; a GPU is on the node of the series that says that it is present."""
    series = tuple(series)
    values = _by(series, lambda labels: labels.get("UUID", ""))
    found: dict[Place, list[FleetDevice]] = defaultdict(list)
    taken: set[str] = set()
    for labels in (one.labels for one in series if one.labels.get(QUANTITY) == Quantity.PRESENT.value):
        uuid, place = labels.get("UUID", ""), place_of(labels)
        if uuid in taken:
            continue
        taken.add(uuid)
        of = values[uuid]
        name, number = labels.get("model_name", ""), labels.get("gpu", "")
        is_lost = of.get(Quantity.LOST.value) == 1
        found[place].append(FleetDevice(place, uuid, number, name, _readings(of), is_lost))
    return {
        place: tuple(sorted(gpus, key=lambda gpu: (_number(gpu.number) or 0, gpu.uuid)))
        for place, gpus in found.items()
    }


def holdings_of(series: Iterable[Series]) -> tuple[Holding, ...]:
    """The processes on GPUs; a PyTorch process whose GPU is not known has no UUID."""
    values: dict[tuple[str, ...], dict[str, float]] = defaultdict(dict)
    told: dict[tuple[str, ...], Labels] = {}
    for one in series:
        key = tuple(one.labels.get(name, "") for name in ("cluster", NODE, "instance", "pid", "UUID", "GPU_I_ID"))
        values[key][one.labels.get(QUANTITY, "")] = one.value
        if len(one.labels) > len(told.get(key, ())):
            told[key] = one.labels
    found = (_holding(told[key], of) for key, of in values.items())
    return tuple(sorted((one for one in found if one), key=lambda one: (one.place, _number(one.number) or 0, one.pid)))


def jobs_of(series: Iterable[Series]) -> tuple[Job, ...]:
    """The jobs, those with most GPUs first; the parts of a job on several exporters' pages add up, but for shares."""
    sums: dict[JobName, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    busy: dict[JobName, dict[str, float]] = defaultdict(dict)
    nodes: dict[JobName, set[Place]] = defaultdict(set)
    users: dict[JobName, str] = {}
    for one in series:
        name, quantity = job_of(one.labels), one.labels.get(QUANTITY, "")
        if name is None:
            continue
        if quantity == Quantity.BUSY.value:
            busy[name][quantity] = one.value
            continue
        sums[name][quantity] += one.value
        nodes[name].add(place_of(one.labels))
        users[name] = users.get(name) or one.labels.get("user", "")
    found = [
        Job(name, users[name], len(nodes[name]), round(of[COUNT]), round(of[PROCESSES_OF]),
            of.get(Quantity.USED.value, NOT_EXPORTED), _percent(busy[name], Quantity.BUSY.value))
        for name, of in sums.items()
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda job: (-job.gpus, job.name)))


def history_of(
    series: Iterable[Series], start: float, step_s: float, count: int
) -> dict[Place, tuple[float | None, ...]]:
    """Shares of 1 at `count` times from `start` (epoch seconds) on; None where nothing was known."""
    found: dict[Place, tuple[float | None, ...]] = {}
    for one in series:
        values = {round((time - start) / step_s): value for time, value in one.points}
        found[place_of(one.labels)] = tuple(values.get(place) for place in range(count))
    return found


def signs_of(asked: Asked, series: Iterable[Series]) -> tuple[Sign, ...]:
    """What the question of a rule has found."""
    return tuple(
        Sign(
            asked.value,
            place_of(one.labels),
            one.labels.get("UUID", ""),
            one.labels.get("gpu", ""),
            job_of(one.labels),
            one.labels.get("user", ""),
            _number(one.labels.get("pid", "")),
            _number(one.labels.get("rank", "")),
            one.value,
        )
        for one in series
    )


def place_of(labels: Labels) -> Place:
    """The node of a series."""
    return Place(labels.get("cluster", ""), labels.get(NODE, "") or NO_NAME)


def job_of(labels: Labels) -> JobName | None:
    """The job of a series of processes, None for a process without a job."""
    for kind in JOB_KINDS:
        if labels.get(kind.key):
            name = "/".join(filter(None, (labels.get(label) for label in kind.labels)))
            return JobName(labels.get("cluster", ""), kind.words, name)
    return None


def _by(series: Iterable[Series], key_of: Callable[[Labels], K]) -> dict[K, dict[str, float]]:
    found: dict[K, dict[str, float]] = defaultdict(dict)
    for one in series:
        found[key_of(one.labels)].setdefault(one.labels.get(QUANTITY, ""), one.value)
    return found


def _readings(of: Mapping[str, float]) -> Readings:
    used, total = _bytes(of, Quantity.USED), _bytes(of, Quantity.TOTAL)
    return Readings(
        _percent(of, Quantity.BUSY.value),
        _percent(of, Quantity.SM_ACTIVE.value),
        _percent(of, Quantity.TENSOR.value),
        used,
        total,
        of.get(Quantity.POWER.value, NOT_EXPORTED),
        of.get(Quantity.LIMIT.value, NOT_EXPORTED),
        of.get(Quantity.TEMPERATURE.value, NOT_EXPORTED),
    )


def _bytes(of: Mapping[str, float], quantity: Quantity) -> Reading[float]:
    value = of.get(quantity.value)
    return NOT_EXPORTED if value is None or value < 0 else value


def _percent(of: Mapping[str, float], name: str) -> Reading[float]:
    value = of.get(name)
    return NOT_EXPORTED if value is None or not 0 <= value <= 1 + 1e-6 else min(100.0, 100 * value)


def _holding(labels: Labels, of: Mapping[str, float]) -> Holding | None:
    pid = _number(labels.get("pid", ""))
    if pid is None:
        return None
    return Holding(
        place_of(labels),
        pid,
        labels.get("UUID", ""),
        labels.get("gpu", ""),
        labels.get("user", ""),
        labels.get("program", ""),
        job_of(labels),
        _number(labels.get("rank", "")),
        _number(labels.get("world_size", "")),
        of.get(USED_BY_PROCESS, NOT_EXPORTED),
        _percent(of, BUSY_BY_PROCESS),
        of.get(RESERVED, NOT_EXPORTED),
        of.get(ALLOCATED, NOT_EXPORTED),
    )


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,10}", text, re.ASCII) else None
