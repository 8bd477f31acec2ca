"""Findings across 200 nodes of a real Prometheus with an hour of history: each planted fault, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from gputui.explain.fleet.rules import RULES
from gputui.explain.fleet.watch import FleetWatch
from gputui.model.fleet.fleet import Fleet
from gputui.model.fleet.parts import JobName, Place, Sign
from gputui.model.machine.finding import MachineFinding
from gputui.sources.prometheus.access import access_to
from gputui.sources.prometheus.client import Server
from gputui.sources.prometheus.machine import fleet_once
from gputui.units import GIB
from tests.fleet.backfilled import HOUR_S, STEP_S, Gpu, always, holding, lines, until
from tests.torches import REPOSITORY

NODES = 200
GONE, HAS_GONE, LOST, HELD, HELD_LATELY = 50, 60, 70, 80, 81
IDLE_RANK, LARGE_RANK = 5, 2


def fleet_at(now: int) -> dict[tuple[int, int], Gpu]:
    """Two GPUs on each node, with faults and what is nearly one."""
    gpus = {(node, number): Gpu(node, number) for node in range(1, NODES + 1) for number in range(2)}
    ended = until(now - 600)
    changed = {
        (GONE, 0): {"present": ended},
        (GONE, 1): {"present": ended},
        (HAS_GONE, 1): {"present": ended},
        (LOST, 0): {"lost": 1},
        (HELD, 0): {"busy": always(0), "used": always(30 * GIB)},
        (HELD_LATELY, 0): {"busy": lambda at: 0.8 if at < now - 1800 else 0, "used": always(30 * GIB)},
        (HELD_LATELY, 1): {"busy": always(0), "used": always(0.5 * GIB)},
    }
    for rank in range(8):  # the first job works, but for one GPU, and one rank holds more
        idle = always(0.0 if rank == IDLE_RANK else 0.9)
        used = always((20 if rank == LARGE_RANK else 10) * GIB)
        changed[1 + rank // 2, rank % 2] = {"busy": idle, "used": used, "job": "900", "rank": rank}
    for rank in range(4):  # the second stands still
        changed[5 + rank // 2, rank % 2] = {"busy": always(1.0), "changes": always(5.0), "job": "901", "rank": rank}
    for rank in range(2):  # of two ranks, nobody knows which one is usual
        changed[7, rank] = {"used": always((10 + 10 * rank) * GIB), "job": "902", "rank": rank}
    return gpus | {key: gpus[key]._replace(**parts) for key, parts in changed.items()}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """What a server tells whose samples reach from more than an hour ago to a while from now."""
    now = int(time.time())
    gpus = fleet_at(now)
    of_hour = [gpu for gpu in gpus.values() if gpu.job or gpu.node in (GONE, HAS_GONE, LOST, HELD, HELD_LATELY)]
    others = [gpu for gpu in gpus.values() if gpu not in of_hour]
    samples = [
        *lines((one for gpu in of_hour for one in gpu.series()), range(now - HOUR_S - 600, now + 1800, STEP_S)),
        *lines((one for gpu in others for one in gpu.series()), range(now - 240, now + 1800, 4 * STEP_S)),
    ]
    with holding(samples, tmp_path_factory.mktemp("findings")) as prometheus:
        yield fleet_once(Server(access_to(prometheus.url)))


@pytest.fixture(scope="module")
def findings(fleet: Fleet) -> tuple[MachineFinding, ...]:
    return FleetWatch().take(fleet)


@pytest.mark.needs("prometheus")
@pytest.mark.needs("promtool")
class TestPlanted:
    """Each finding with its place."""

    def test_each_fault_is_found_and_nothing_else(self, findings: tuple[MachineFinding, ...]) -> None:
        assert sorted((finding.kind, finding.where) for finding in findings) == [
            ("gone", "n060 GPU 1"),
            ("idle_held", "n080 GPU 0"),
            ("idle_in_job", "n003 GPU 1"),
            ("lost", "n070 GPU 0"),
            ("node_gone", "n050"),
            ("rank_more", "n002"),
            ("stuck_rank", "n005 GPU 0"),
        ]

    def test_a_finding_has_numbers_and_its_node(self, findings: tuple[MachineFinding, ...]) -> None:
        by_kind = {finding.kind: finding for finding in findings}
        assert by_kind["rank_more"].title == (
            "Rank 2 of Slurm job 900 of ana holds 20.0 GiB, 10.0 GiB more than the median rank"
        )
        assert by_kind["idle_in_job"].evidence == (
            "It was busy 0% of the last 10 minutes; the median of the job's 8 GPUs is 90%.",
        )
        assert by_kind["gone"].evidence[0] == "n060 had 2 GPUs within the last hour, and has 1."
        assert by_kind["stuck_rank"].title == "4 ranks of Slurm job 901 of ana stand still, and the GPU counts as busy"
        assert by_kind["node_gone"].node == Place("lab", "n050")

    def test_a_node_that_is_gone_stays_in_the_table(self, fleet: Fleet) -> None:
        nodes = {node.place.node: node for node in fleet.nodes}
        assert (len(nodes), fleet.gpus) == (NODES, 2 * NODES - 3)
        assert (nodes["n050"].gpus, nodes["n050"].gone) == (0, 2)
        assert (nodes["n060"].gpus, nodes["n060"].gone) == (1, 1)

    def test_jobs_reach_over_nodes(self, fleet: Fleet) -> None:
        assert [(job.name.name, job.nodes, job.gpus) for job in fleet.jobs or ()] == [
            ("900", 4, 8),
            ("901", 2, 4),
            ("902", 1, 2),
        ]


PLACE, JOB = Place("", "n1"), JobName("", "Slurm job", "7")


def sign(kind: str, value: float, rank: int = 0) -> Sign:
    return Sign(kind, PLACE, f"GPU-{rank}", str(rank), JOB, "ana", 100 + rank, rank, value)


SPOKEN = {
    "gone": [sign("gone", 1)],
    "lost": [sign("lost", 1)],
    "stuck_rank": [sign("stuck_rank", 0)],
    "idle_in_job": [sign("idle_in_job", 0.9, 0), sign("idle_in_job", 0.8, 1), sign("idle_in_job", 0.01, 2)],
    "rank_more": [sign("rank_more", 10 * GIB, 0), sign("rank_more", 10 * GIB, 1), sign("rank_more", 13 * GIB, 2)],
    "idle_held": [sign("idle_held", 5 * GIB)],
}
"""For each rule's question, signs of which it makes a finding."""
SILENT = {
    "idle_in_job": [sign("idle_in_job", 0.01, 0), sign("idle_in_job", 0.02, 1), sign("idle_in_job", 0.9, 2)],
    "rank_more": [sign("rank_more", GIB, 0), sign("rank_more", GIB, 1), sign("rank_more", 1.5 * GIB, 2)],
}
"""Signs of which it makes none: most of the job is idle; half a GiB is a context."""


def found(signs: list[Sign]) -> tuple[MachineFinding, ...]:
    return FleetWatch().take(Fleet("here", 1.0, signs=tuple(signs), signs_time=10_000.0))


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.kind != "unreached"], ids=lambda rule: rule.kind)
def test_a_rule_speaks_of_its_signs(rule) -> None:
    (finding, *_) = found(SPOKEN[rule.sign or rule.kind])
    if rule.kind != "gone":  # with a node of its own, below
        assert (finding.kind, finding.weight, finding.since) == (rule.kind, rule.weight, 10_000 - rule.seen_for_s)


@pytest.mark.parametrize("kind", SILENT)
def test_a_rule_is_silent_about_what_is_nearly_one(kind: str) -> None:
    assert found(SILENT[kind]) == ()


def test_the_page_of_findings_has_every_rule() -> None:
    page = (REPOSITORY / "docs" / "fleet.md").read_text()
    assert [rule.kind for rule in RULES if f"| `{rule.kind}` |" not in page] == []


def test_a_finding_keeps_since_when_it_is_there() -> None:
    watch = FleetWatch()
    first = Fleet("here", 1.0, signs=(sign("lost", 1),), signs_time=1000.0)
    watch.take(first)
    (old, new) = watch.take(first._replace(signs=(sign("lost", 1), sign("lost", 1, 3)), signs_time=1060.0))
    assert [(finding.since, finding.is_older) for finding in (old, new)] == [(1000.0, True), (1060.0, False)]
    assert watch.take(first._replace(signs=(), signs_time=1120.0)) == ()
