"""The questions for findings: in each, the server leaves out all that cannot be a finding."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gputui.explain.fleet import thresholds
from gputui.model.fleet.exporters import Quantity
from gputui.sources.prometheus.expressions import (
    ALL_JOB_LABELS,
    PROCESS,
    Part,
    of_jobs,
    on_gpus,
    per_gpu,
    placed,
    with_info,
)
from gputui.sources.prometheus.metrics import CHANGES, INFO, USED_BY_PROCESS, Known
from gputui.sources.prometheus.questions import Asked, Question

OFTEN_S, SELDOM_S = 60.0, 300.0
"""How often rules are asked; what takes ten minutes to become a finding need not be asked each minute."""


def about_finding(asked: Asked, known: Known, grace_s: float) -> Question:
    """The question of a rule, for all nodes. `grace_s` is how long a GPU may be missing before it counts as gone."""
    return Question(asked, SUSPICIONS[asked].build(known, grace_s))


def _gone(known: Known, grace_s: float) -> str:
    """GPUs that were present in the last hour, but not in the last `grace_s` seconds."""
    before = per_gpu(Quantity.PRESENT, known.names, Part(over=_time(thresholds.GONE_WITHIN_S)), "gpu")
    lately = per_gpu(Quantity.PRESENT, known.names, Part(over=_time(grace_s)))
    return before and placed(f"({before}) unless on (UUID) ({lately})")


def _lost(known: Known, _grace_s: float) -> str:
    lost = per_gpu(Quantity.LOST, known.names, keep="gpu")
    return lost and placed(f"({lost}) == 1")


def _stuck(known: Known, _grace_s: float) -> str:
    """Ranks whose allocator does nothing while their GPU is busy."""
    busy = "gputui_device_busy_ratio"
    if not known.has(CHANGES, busy, INFO):
        return ""
    over = _time(thresholds.STUCK_FOR_S)
    is_still = f"rate({CHANGES}[{over}]) == 0"
    is_busy = f"min_over_time({busy}[{over}]) > {thresholds.BUSY_SHARE}"
    was_there = f"{CHANGES} offset {over}"
    stuck = f"({is_still}) and on (cluster, instance, UUID) ({is_busy}) and on ({PROCESS}) ({was_there})"
    return placed(with_info(f"({stuck})", f"user, {ALL_JOB_LABELS}"))


def _idle_in_job(known: Known, _grace_s: float) -> str:
    """The GPUs of jobs in which some GPUs work and some do not, with the mean use of each GPU."""
    over = _time(thresholds.IDLE_IN_JOB_FOR_S)
    busy = per_gpu(Quantity.BUSY, known.names, Part(over=over, function="avg_over_time"))
    if not busy or not known.has(INFO, USED_BY_PROCESS) or not known.kinds:
        return ""
    was_there = f"({USED_BY_PROCESS} and on ({PROCESS}) {USED_BY_PROCESS} offset {over})"

    def build(labels: str, info: str) -> str:
        each = on_gpus(with_info(was_there, f"{labels}, user", info), labels, busy)
        by = f"cluster, {labels}"
        idle = f"min by ({by}) ({each}) < {thresholds.IDLE_SHARE}"
        working = f"max by ({by}) ({each}) > {thresholds.WORKING_SHARE}"
        return f"({each}) and on ({by}) ({idle}) and on ({by}) ({working})"

    return placed(of_jobs(known.kinds, build))


def _rank_more(known: Known, _grace_s: float) -> str:
    """The memory of each rank, in jobs in which a rank holds more than the median by `MORE_SHARE`."""
    if not known.has(INFO, USED_BY_PROCESS) or not known.kinds:
        return ""

    def build(labels: str, info: str) -> str:
        by = f"cluster, {labels}"
        used = with_info(USED_BY_PROCESS, f"{labels}, user, rank", info)
        each = f"sum by ({by}, node, instance, user, rank, pid) ({used})"
        usual = f"{1 + thresholds.MORE_SHARE} * quantile by ({by}) (0.5, {each})"
        return f"({each}) and on ({by}) (max by ({by}) ({each}) > {usual})"

    return placed(of_jobs(known.kinds, build, 'rank!=""'))


def _idle_held(known: Known, _grace_s: float) -> str:
    """Memory of GPUs that was held for an hour in which they did next to nothing."""
    over = _time(thresholds.HELD_FOR_S)
    busy = per_gpu(Quantity.BUSY, known.names, Part(over=over, function="max_over_time"), "gpu")
    held = per_gpu(Quantity.USED, known.names, Part(over=over, function="min_over_time"), "gpu")
    before = per_gpu(Quantity.PRESENT, known.names, Part(offset=over))
    if not busy or not held or not before:
        return ""
    is_held, is_idle = f"({held}) > {thresholds.HELD_BYTES}", f"({busy}) < {thresholds.USED_SHARE}"
    return placed(f"({is_held}) and on (UUID) ({is_idle}) and on (UUID) ({before})")


class Suspicion(NamedTuple):
    """What builds the query of a rule, and how often it is asked."""

    build: Callable[[Known, float], str]
    every_s: float


SUSPICIONS = {
    Asked.GONE: Suspicion(_gone, OFTEN_S),
    Asked.LOST: Suspicion(_lost, OFTEN_S),
    Asked.STUCK: Suspicion(_stuck, OFTEN_S),
    Asked.IDLE_IN_JOB: Suspicion(_idle_in_job, SELDOM_S),
    Asked.RANK_MORE: Suspicion(_rank_more, SELDOM_S),
    Asked.IDLE_HELD: Suspicion(_idle_held, SELDOM_S),
}


def _time(seconds: float) -> str:
    return f"{round(seconds)}s"
