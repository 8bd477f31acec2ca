"""What a real Prometheus answers about pages of all exporters: each GPU once, in base units, with what is missing."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from gputui.cli import main
from gputui.explain.fleet.missing import NOBODY, missing
from gputui.model.fleet.attention import FleetAttention
from gputui.model.fleet.exporters import Exporter, Found
from gputui.model.fleet.fleet import Fleet
from gputui.model.fleet.parts import JobName, Place
from gputui.model.reading import Absent
from gputui.sources.prometheus import questions
from gputui.sources.prometheus.access import access_to
from gputui.sources.prometheus.client import Server
from gputui.sources.prometheus.machine import fleet_once
from gputui.sources.prometheus.metrics import CHANGES, INFO, JOB_KINDS, METRICS, USED_BY_PROCESS, Known
from gputui.sources.prometheus.questions import FIRST, SELDOM, THEN, UNSHOWN, Asked, Question
from gputui.sources.prometheus.reader import Reader
from gputui.sources.prometheus.suspicions import SUSPICIONS, about_finding
from gputui.units import GIB
from tests.export.prometheus import Prometheus
from tests.fleet.pages import GPUS, MIB, TOTAL_MIB, USED_MIB
from tests.fleet.serving import scraping

pytestmark = pytest.mark.needs("prometheus")

ALL_NAMES = frozenset(name for rows in METRICS.values() for row in rows for name in row.names)


@pytest.fixture(scope="module")
def fleet(prometheus: Prometheus) -> Fleet:
    return fleet_once(Server(access_to(prometheus.url)))


def place(node: str) -> Place:
    return Place("lab", node)


def test_every_gpu_counts_once(fleet: Fleet) -> None:
    """Two exporters on a node, three pods on a GPU, and MIG repeat it."""
    assert {node.place.node: node.gpus for node in fleet.nodes} == GPUS
    uuids = Counter(device.uuid for devices in fleet.devices.values() for device in devices)
    assert (len(uuids), set(uuids.values())) == (sum(GPUS.values()), {1})
    assert {at.node: len(devices) for at, devices in fleet.devices.items()} == GPUS


@pytest.mark.parametrize(
    ("node", "busy", "used_mib", "total_mib", "watts", "celsius"),
    [
        pytest.param("node1", 97, 40 * 1024, TOTAL_MIB, 512.34, 61, id="gputui"),
        pytest.param("node3", 97, 40 * 1024, TOTAL_MIB, 512.34, 61, id="gputui before dcgm-exporter"),
        pytest.param("node4", 50, USED_MIB, TOTAL_MIB, 250.5, 44, id="dcgm-exporter before 4.9"),
        pytest.param("node5", 75, USED_MIB, TOTAL_MIB, 400.25, 55, id="dcgm-exporter since 4.9"),
        pytest.param("node6", 100, USED_MIB, TOTAL_MIB, 350, 66, id="nvidia_gpu_exporter"),
        pytest.param("node7", None, USED_MIB, TOTAL_MIB, 300, 40, id="MIG"),
    ],
)
def test_readings_are_in_base_units_whoever_tells_them(
    fleet: Fleet, node: str, busy: float | None, used_mib: int, total_mib: int, watts: float, celsius: int
) -> None:
    readings = fleet.devices[place(node)][0].readings
    assert isinstance(readings.busy_percent, Absent) if busy is None else readings.busy_percent == busy
    assert readings[3:5] == (used_mib * MIB, total_mib * MIB)
    assert (readings.power_w, readings.temperature_c) == (watts, celsius)
    together = next(each.readings for each in fleet.nodes if each.place == place(node))
    assert (together.used_bytes, together.power_w) == (GPUS[node] * used_mib * MIB, GPUS[node] * watts)
    assert together.temperature_c == celsius


def test_a_value_that_cannot_be_is_absent(fleet: Fleet) -> None:
    """The limit of the old dcgm-exporter is a field without a value there."""
    assert isinstance(fleet.devices[place("node4")][0].readings.power_limit_w, Absent)
    assert fleet.devices[place("node5")][0].readings.power_limit_w == 700


def test_names_and_numbers_come_from_every_exporter(fleet: Fleet) -> None:
    named = {at.node: [(gpu.number, gpu.name) for gpu in gpus] for at, gpus in fleet.devices.items()}
    assert named["node1"] == [("0", "NVIDIA H100 80GB HBM3"), ("1", "NVIDIA H100 80GB HBM3")]
    assert named["node4"][1] == ("1", "NVIDIA A100-SXM4-80GB")
    assert named["node5"][0] == ("0", "NVIDIA H200")
    assert named["node6"][1] == ("1", "NVIDIA GeForce RTX 4090")


def test_it_says_who_tells_and_what_is_missing_therefore(fleet: Fleet) -> None:
    assert fleet.found == (
        Found(Exporter.GPUTUI, 3, 6),
        Found(Exporter.DCGM_NEW, 1, 2),
        Found(Exporter.DCGM, 3, 5),
        Found(Exporter.SMI, 1, 2),
    )
    assert missing(fleet) == ["Jobs, ranks and processes are missing on 4 nodes: gputui export does not run there."]


def test_ranks_are_known_with_job_user_and_allocator(fleet: Fleet) -> None:
    (first, second) = fleet.holdings[place("node2")]
    assert [(held.rank, held.world_size, held.user, held.program) for held in (first, second)] == [
        (2, 4, "ana", "train.py"),
        (3, 4, "ana", "train.py"),
    ]
    assert first.job == JobName("lab", "Slurm job", "4711")
    assert first.uuid == fleet.devices[place("node2")][0].uuid
    assert (first.used_bytes, first.torch_reserved_bytes, first.torch_allocated_bytes) == (9 * GIB, 8 * GIB, 7 * GIB)
    assert fleet.holdings[place("node4")] == ()


def test_a_job_is_one_over_all_its_nodes(fleet: Fleet) -> None:
    (job,) = fleet.jobs or ()
    assert (job.name.name, job.user, job.nodes, job.gpus, job.processes) == ("4711", "ana", 3, 6, 6)
    assert (job.used_bytes, job.busy_percent) == (sum(6 * [9 * GIB]) + 3 * MIB, pytest.approx(97))


def test_only_what_is_on_screen_is_asked_for_in_detail(prometheus: Prometheus) -> None:
    server = Server(access_to(prometheus.url))
    reader = Reader(server, lambda: 1e9)
    for _ in reader.steps(FleetAttention(), is_due=True):
        pass
    assert (len(reader.fleet.nodes), reader.fleet.devices, reader.fleet.jobs) == (7, {}, None)
    before = server.cost
    job = JobName("lab", "Slurm job", "4711")
    shown = FleetAttention(frozenset([place("node4")]), frozenset([job]), wants_jobs=True)
    for _ in reader.steps(shown, is_due=False):
        pass
    assert set(reader.fleet.devices) == {place("node4")}
    assert [held.rank for held in reader.fleet.ranks[job]] == [0, 1, 2, 3, 0, 1]
    assert reader.fleet.jobs is not None
    asked = server.cost.questions - before.questions
    for _ in reader.steps(shown, is_due=False):
        pass
    assert (asked, server.cost.questions) == (4, before.questions + 4)
    assert server.cost.samples > before.samples > 0


@pytest.mark.parametrize("asked", SUSPICIONS)
def test_a_real_prometheus_accepts_each_question_about_findings(prometheus: Prometheus, asked) -> None:
    """With the names of all exporters and all kinds of jobs, also those that there are none of here."""
    names = frozenset({*ALL_NAMES, *Server(access_to(prometheus.url)).names()})
    prometheus.ask(about_finding(asked, Known(names, JOB_KINDS), 60).expression)


def test_the_document_has_the_same_names_whatever_is_known(prometheus: Prometheus, capsys) -> None:
    assert main(["fleet", "--prometheus", prometheus.url, "--once", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["schema"] == "gputui.fleet/1"
    nodes = {node["node"]: node for node in body["nodes"]}
    assert {frozenset(node) for node in nodes.values()} == {frozenset(nodes["node1"])}
    assert nodes["node7"]["devices"][0]["gpu_utilization_percent"] is None
    assert nodes["node2"]["devices"][1]["processes"][0]["rank"] == 3
    assert body["jobs"][0] | {"used_bytes": 0} == {
        "cluster": "lab", "kind": "Slurm job", "name": "4711", "user": "ana", "nodes": 3, "devices": 6,
        "processes": 6, "used_bytes": 0, "gpu_utilization_percent": 97.0,
    }  # fmt: skip


def test_the_same_is_printed_for_people(prometheus: Prometheus, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    assert main(["fleet", "--prometheus", prometheus.url, "--once"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("7 nodes  13 GPUs")
    assert ["lab", "node4", "2", "50%", "25%", "40.0G", "/", "160G", "44C", "501W"] in [line.split() for line in lines]
    assert max(map(len, lines)) <= 150


def asked_of(known: Known) -> list[Question]:
    """Every question there is, for a server that has these names."""
    places = (place("node1"),)
    every = [questions.nodes(known, QUANTITIES, is_counted=True), questions.found(known), questions.jobs(known)]
    every += [ask(known, at) for ask in (questions.devices, questions.holdings) for at in (places, ())]
    every += [questions.history(known, places)]
    every += [questions.ranks(known, JobName("lab", kind.words, "a/b")) for kind in JOB_KINDS]
    return every + [about_finding(asked, known, 60.0) for asked in SUSPICIONS]


QUANTITIES = (*FIRST, *THEN, *SELDOM, *UNSHOWN)


def test_a_server_without_names_of_gpus_is_asked_nothing() -> None:
    assert [question.asked for question in asked_of(Known(frozenset())) if question.expression] == []


def test_whatever_names_a_server_has_its_questions_are_understood(prometheus: Prometheus) -> None:
    """An exporter may be told to leave out some metrics, and every question is put together from what there is."""
    chance, names = Random(1), sorted({*ALL_NAMES, INFO, USED_BY_PROCESS, CHANGES})
    server = Server(access_to(prometheus.url))
    expressions = set()
    for _ in range(60):
        some = frozenset(chance.sample(names, chance.randrange(1, len(names))))
        known = Known(some, tuple(kind for kind in JOB_KINDS if chance.random() < 0.5))
        expressions |= {question.expression for question in asked_of(known)} - {""}
    assert len(expressions) > 100
    for expression in chance.sample(sorted(expressions), 100):
        server.ask(Question(Asked.NODES, expression))
    server.close()


def test_a_server_without_gpus_says_what_to_scrape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with scraping({"node1:9100": "node_load1 0.5\n"}, tmp_path) as server:
        assert main(["fleet", "--prometheus", server.url, "--once"]) == 0
    assert NOBODY in " ".join(capsys.readouterr().out.split())
