"""A simulated fleet that answers the questions for a Prometheus: two clusters, six jobs, and some faults."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from statistics import mean
from typing import NamedTuple

from gputui.explain.fleet import thresholds
from gputui.model.fleet.exporters import Exporter, Quantity
from gputui.model.fleet.fleet import Cost
from gputui.model.fleet.parts import Place
from gputui.sources.demo.curves import Curve, constant, noise, training
from gputui.sources.prometheus.decode import Series
from gputui.sources.prometheus.expressions import EXPORTER, NODE, QUANTITY
from gputui.sources.prometheus.metrics import (
    ALLOCATED,
    BUSY_BY_PROCESS,
    CHANGES,
    INFO,
    METRICS,
    RESERVED,
    USED_BY_PROCESS,
)
from gputui.sources.prometheus.questions import (
    COUNT,
    INTERVAL,
    INTERVAL_OVER_S,
    KIND_OF,
    NODES_OF,
    PROCESSES_OF,
    Asked,
    Question,
)
from gputui.units import GIB

SCRAPE_S = 2.0
_FIRST_PID = 48_213
_APART_S = 13.0
"""Jobs are shifted by this time for each of their GPUs, so that they do not pause together."""


class _Job(NamedTuple):
    """A job on so many `gpus`, with the shares (0 to 1) and the bytes that it uses of each."""

    name: str
    user: str
    program: str
    gpus: int
    busy: float
    tensor: float
    used_bytes: float


_JOBS = (
    _Job("4711", "ana", "pretrain.py", 40, 0.97, 0.42, 61 * GIB),
    _Job("4716", "ben", "finetune.py", 16, 0.88, 0.31, 58 * GIB),
    _Job("4719", "chi", "train_vae.py", 8, 0.71, 0.12, 39 * GIB),
    _Job("4722", "dee", "jupyter", 1, 0.0, 0.0, 22 * GIB),
    _Job("4723", "eli", "eval.py", 7, 0.55, 0.18, 33 * GIB),
)
_IDLE = _Job("", "", "", 0, 0.0, 0.0, 0.6 * GIB)
_UNTOLD = _Job("", "", "", 19, 0.83, 0.0, 61 * GIB)
"""The work on nodes without gputui's exporter, where the owner is not known."""
_GONE_NODE, _GONE_GPU = "east-11", ("east-07", 3)
_IDLE_RANK, _LARGE_RANK = 13, 21
"""Ranks of the first job: one whose GPU has stopped working, and one that holds more than the others."""


class _Gpu(NamedTuple):
    """A GPU, the job on it, and the job's rank there."""

    place: Place
    number: int
    model: str
    total_bytes: float
    limit_w: float
    job: _Job = _IDLE
    rank: int = 0

    @property
    def labels(self) -> dict[str, str]:
        """The labels that identify the GPU."""
        uuid = f"GPU-{self.place.cluster}-{self.place.node}-{self.number}"
        return {"cluster": self.place.cluster, NODE: self.place.node, "UUID": uuid, "gpu": str(self.number)}

    @property
    def job_labels(self) -> dict[str, str]:
        """The labels of the job."""
        return {"slurm_job_id": self.job.name, "user": self.job.user, "cluster": self.place.cluster}


class DemoAnswers:
    """Answers questions like a Prometheus; the figures depend only on the time, which `clock` gives."""

    address = "a simulated Prometheus"

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._gpus = tuple(_with_jobs(_empty()))
        self._busy_at = {gpu: _curve(gpu) for gpu in self._gpus}
        self._questions = 0

    @property
    def cost(self) -> Cost:
        """How much was asked; no bytes are received."""
        return Cost(self._questions)

    def names(self) -> frozenset[str]:
        """The metrics of gputui's exporter, and of a dcgm-exporter before 4.9."""
        rows = (row for rows in METRICS.values() for row in rows)
        told = {name for row in rows if row.exporter in (Exporter.GPUTUI, Exporter.DCGM) for name in row.names}
        return frozenset({*told, INFO, USED_BY_PROCESS, BUSY_BY_PROCESS, RESERVED, ALLOCATED, CHANGES})

    def ask(self, question: Question) -> tuple[Series, ...]:
        """The simulation's answer."""
        self._questions += 1
        gpus = [gpu for gpu in self._gpus if not question.nodes or gpu.place in question.nodes]
        return tuple(_ANSWERS[question.asked](self, gpus, question))

    def ask_range(self, question: Question, start: float, end: float, step_s: float) -> tuple[Series, ...]:
        """How busy nodes have been, whatever the question asks."""
        self._questions += 1
        times = [start + step_s * number for number in range(round((end - start) / step_s) + 1)]
        return tuple(
            Series(labels, 0.0, tuple((at, mean(self._busy(gpu, at) for gpu in gpus)) for at in times))
            for labels, gpus in _by_node(gpu for gpu in self._gpus if gpu.place in question.nodes)
        )

    def close(self) -> None:
        """Does nothing."""

    def _busy(self, gpu: _Gpu, at: float) -> float:
        return self._busy_at[gpu](at)

    def _readings(self, gpu: _Gpu) -> dict[Quantity, float]:
        busy = self._busy(gpu, self._clock())
        used = gpu.job.used_bytes * (1.25 if gpu.job is _JOBS[0] and gpu.rank == _LARGE_RANK else 1)
        readings = {
            Quantity.BUSY: busy,
            Quantity.USED: min(used, gpu.total_bytes),
            Quantity.TOTAL: gpu.total_bytes,
            Quantity.POWER: gpu.limit_w * (0.1 + 0.75 * busy),
            Quantity.LIMIT: gpu.limit_w,
            Quantity.TEMPERATURE: 30 + 38 * busy + gpu.number,
        }
        return readings | ({Quantity.TENSOR: gpu.job.tensor * busy} if gpu.place.cluster == "east" else {})

    def _found(self, gpus: list[_Gpu], _question: Question) -> Iterator[Series]:
        for exporter, cluster in ((Exporter.GPUTUI, "east"), (Exporter.DCGM, "west")):
            here = [gpu for gpu in gpus if gpu.place.cluster == cluster]
            yield Series({EXPORTER: exporter.value, QUANTITY: COUNT}, len(here))
            yield Series({EXPORTER: exporter.value, QUANTITY: NODES_OF}, len({gpu.place for gpu in here}))
        yield Series({QUANTITY: INTERVAL}, INTERVAL_OVER_S / SCRAPE_S)
        yield Series({QUANTITY: f"{KIND_OF}slurm_job_id"}, len(gpus))

    def _nodes(self, gpus: list[_Gpu], _question: Question) -> Iterator[Series]:
        for labels, here in _by_node(gpus):
            values: dict[Quantity, list[float]] = defaultdict(list)
            for gpu in here:
                for quantity, value in self._readings(gpu).items():
                    values[quantity].append(value)
            yield Series({**labels, QUANTITY: COUNT}, len(here))
            for quantity, found in values.items():
                yield Series({**labels, QUANTITY: quantity.value}, _TOGETHER.get(quantity, sum)(found))

    def _devices(self, gpus: list[_Gpu], _question: Question) -> Iterator[Series]:
        for gpu in gpus:
            yield Series({**gpu.labels, "model_name": gpu.model, QUANTITY: Quantity.PRESENT.value}, 1)
            for quantity, value in self._readings(gpu).items():
                yield Series({**gpu.labels, QUANTITY: quantity.value}, value)

    def _holdings(self, gpus: Iterable[_Gpu], _question: Question) -> Iterator[Series]:
        for gpu in gpus:
            if not gpu.job.name:
                continue
            readings = self._readings(gpu)
            labels = gpu.labels | gpu.job_labels | {
                "instance": f"{gpu.place.node}:10836", "pid": str(_FIRST_PID + gpu.number), "program": gpu.job.program,
                **({"rank": str(gpu.rank), "world_size": str(gpu.job.gpus)} if gpu.job.gpus > 1 else {}),
            }  # fmt: skip
            used = readings[Quantity.USED]
            values = {USED_BY_PROCESS: used, BUSY_BY_PROCESS: readings[Quantity.BUSY],
                      RESERVED: used - 0.7 * GIB, ALLOCATED: 0.86 * used}  # fmt: skip
            yield from (Series({**labels, QUANTITY: name}, value) for name, value in values.items())

    def _jobs(self, gpus: list[_Gpu], _question: Question) -> Iterator[Series]:
        for job in _JOBS:
            of = [gpu for gpu in gpus if gpu.job is job]
            busy = mean(self._readings(gpu)[Quantity.BUSY] for gpu in of)
            yield Series({**of[0].job_labels, QUANTITY: Quantity.BUSY.value}, busy)
            for labels, here in _by_node(of):
                used = sum(self._readings(gpu)[Quantity.USED] for gpu in here)
                values = {PROCESSES_OF: len(here), COUNT: len(here), Quantity.USED.value: used}
                named = here[0].job_labels | labels
                yield from (Series({**named, QUANTITY: name}, value) for name, value in values.items())

    def _ranks(self, gpus: list[_Gpu], question: Question) -> Iterator[Series]:
        name = question.job.name if question.job else ""
        return self._holdings((gpu for gpu in gpus if gpu.job.name == name), question)

    def _gone(self, _gpus: list[_Gpu], _question: Question) -> Iterator[Series]:
        here = {(gpu.place.node, gpu.number) for gpu in self._gpus}
        yield from (Series(gpu.labels, 1) for gpu in _all() if (gpu.place.node, gpu.number) not in here)

    def _idle_in_job(self, gpus: list[_Gpu], _question: Question) -> Iterator[Series]:
        for gpu in gpus:
            if gpu.job is _JOBS[0]:
                is_idle = gpu.rank == _IDLE_RANK
                yield Series(gpu.labels | gpu.job_labels, 0.0 if is_idle else gpu.job.busy)

    def _rank_more(self, gpus: list[_Gpu], _question: Question) -> Iterator[Series]:
        of = (gpu for gpu in gpus if gpu.job is _JOBS[0])
        for gpu in of:
            labels = {"rank": str(gpu.rank), "pid": str(_FIRST_PID + gpu.number)}
            yield Series(gpu.labels | gpu.job_labels | labels, self._readings(gpu)[Quantity.USED])

    def _idle_held(self, gpus: list[_Gpu], _question: Question) -> Iterator[Series]:
        for gpu in gpus:
            if not gpu.job.busy and gpu.job.used_bytes > thresholds.HELD_BYTES:
                yield Series(gpu.labels, gpu.job.used_bytes)

    def _nothing(self, _gpus: list[_Gpu], _question: Question) -> Iterator[Series]:
        return iter(())


def _curve(gpu: _Gpu) -> Curve:
    if not gpu.job.busy or (gpu.job is _JOBS[0] and gpu.rank == _IDLE_RANK):
        return constant(0.0)
    curve, later_s = training(gpu.job.busy, noise(gpu.job.name, gpu.rank)), _APART_S * gpu.job.gpus
    return lambda time_s: curve(time_s + later_s)


_TOGETHER: dict[Quantity, Callable[[list[float]], float]] = {
    Quantity.BUSY: mean,
    Quantity.TENSOR: mean,
    Quantity.TEMPERATURE: max,
}
_ANSWERS: dict[Asked, Callable[[DemoAnswers, list[_Gpu], Question], Iterator[Series]]] = {
    Asked.FOUND: DemoAnswers._found,
    Asked.NODES: DemoAnswers._nodes,
    Asked.DEVICES: DemoAnswers._devices,
    Asked.HOLDINGS: DemoAnswers._holdings,
    Asked.JOBS: DemoAnswers._jobs,
    Asked.RANKS: DemoAnswers._ranks,
    Asked.GONE: DemoAnswers._gone,
    Asked.IDLE_IN_JOB: DemoAnswers._idle_in_job,
    Asked.RANK_MORE: DemoAnswers._rank_more,
    Asked.IDLE_HELD: DemoAnswers._idle_held,
    Asked.LOST: DemoAnswers._nothing,
    Asked.STUCK: DemoAnswers._nothing,
}


def _all() -> Iterator[_Gpu]:
    for number in range(1, 13):
        for gpu in range(8):
            yield _Gpu(Place("east", f"east-{number:02d}"), gpu, "NVIDIA H100 80GB HBM3", 80 * GIB, 700.0)
    for number in range(1, 7):
        for gpu in range(4):
            yield _Gpu(Place("west", f"west-{number}"), gpu, "NVIDIA A100-SXM4-80GB", 80 * GIB, 400.0)


def _empty() -> Iterator[_Gpu]:
    return (gpu for gpu in _all() if gpu.place.node != _GONE_NODE and (gpu.place.node, gpu.number) != _GONE_GPU)


def _with_jobs(gpus: Iterable[_Gpu]) -> Iterator[_Gpu]:
    """The jobs take the GPUs of their cluster in order."""
    ranks = {
        "east": ((job, rank) for job in _JOBS for rank in range(job.gpus)),
        "west": ((_UNTOLD, rank) for rank in range(_UNTOLD.gpus)),
    }
    for gpu in gpus:
        job, rank = next(ranks[gpu.place.cluster], (_IDLE, 0))
        yield gpu._replace(job=job, rank=rank)


def _by_node(gpus: Iterable[_Gpu]) -> list[tuple[dict[str, str], list[_Gpu]]]:
    found: dict[Place, list[_Gpu]] = defaultdict(list)
    for gpu in gpus:
        found[gpu.place].append(gpu)
    return [({"cluster": place.cluster, NODE: place.node}, here) for place, here in found.items()]
