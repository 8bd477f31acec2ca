"""Nodes without a Prometheus: which are meant, what their documents say, and what is seen over all of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from gputui.cli import main
from gputui.errors import GputuiError, UsageError
from gputui.explain.documents.fleet import document as fleet_document
from gputui.explain.fleet.gathering import Gathering
from gputui.explain.fleet.missing import missing
from gputui.explain.fleet.watch import FleetWatch
from gputui.model.fleet.fleet import Fleet
from gputui.model.fleet.parts import JobName, NodeProblem, Place, Readings
from gputui.model.machine.finding import MachineFinding
from gputui.model.machine.snapshot import Attention, Snapshot
from gputui.model.told import NodeLook, Told
from gputui.once.allocators import allocators_of
from gputui.once.document import document
from gputui.once.fleet import plain
from gputui.sources import again
from gputui.sources.hosts.looks import WrongDocumentError, look_of
from gputui.sources.hosts.machine import HostsMachine, hosts_once
from gputui.sources.hosts.names import nodes_of
from gputui.units import GIB
from tests.export.readings import FIRST_PID, cluster_node
from tests.hanging import wait_until

N1, N2 = Place("", "n1"), Place("", "n2")


def test_names_come_from_words_and_files(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# our nodes\nn3 slots=8\n\nana@n4:8  # the new one\nn1\n")
    assert nodes_of(["n1,n2", f"@{file}"]) == ("n1", "n2", "n3", "ana@n4")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([","], "--hosts names no node."),
        (["-oProxyCommand=x"], "'-oProxyCommand=x' is not the name of a machine."),
        (["@/no/such"], "/no/such cannot be read: No such file or directory."),
        ([",".join(f"n{number}" for number in range(600))], "--hosts names 600 nodes, and gputui keeps an ssh to 512"),
    ],
    ids=("none", "option", "file", "many"),
)
def test_what_is_no_node_is_refused(words: list[str], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        nodes_of(words)
    assert str(caught.value).startswith(sentence)


def test_one_way_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "--hosts", "n1", "--demo"]) == UsageError.exit_status
    assert "--hosts, --prometheus and --demo exclude each other." in capsys.readouterr().err


def said(gpus: int = 2, ranks: int = 4, *, mig: bool = False) -> dict[str, Any]:
    """What gputui on a node prints."""
    readings = cluster_node(gpus, ranks, mig=mig)
    snapshot = Snapshot(1000.0, 1, devices=readings.devices, processes=readings.processes)
    return document(snapshot, allocators=allocators_of(readings.probes, readings.devices))


FOUND = {"kind": "xid", "weight": "problem", "device": 1, "pid": None, "since": 900.0, "title": "GPU 1: XID 79",
         "evidence": ["It fell off the bus."], "remedy": "Reboot."}  # fmt: skip


def look(body: object, place: Place = N1) -> NodeLook:
    return look_of(json.dumps(body).encode(), place)


def test_a_document_becomes_the_parts_of_a_fleet() -> None:
    found = look(said())
    assert (found.node.gpus, found.problem) == (2, "")
    assert found.node.readings == Readings(97.0, 81.2, 38.1, 80.0 * GIB, 160.0 * GIB, 1024.6, 1400.0, 61.0)
    (first, *_) = found.holdings
    assert (first.pid, first.number, first.user, first.program) == (FIRST_PID, "0", "ana", "train.py")
    assert (first.job, first.rank, first.world_size) == (JobName("", "Slurm job", "4711"), 0, 4)
    assert (first.used_bytes, first.torch_reserved_bytes) == (9 * GIB, 8 * GIB)


def test_a_mig_instance_is_a_row_and_no_gpu() -> None:
    found = look(said(mig=True))
    assert found.node.gpus == 2
    assert [(device.number, device.is_instance) for device in found.devices] == [
        ("0", False),
        ("1", False),
        ("1.1", True),
    ]


def test_without_a_scheduler_ranks_belong_together_by_where_they_meet() -> None:
    body = said()
    for process in (process for device in body["devices"] for process in device["processes"]):
        process |= {"owner": None, "rendezvous": "n1:29500"}
    assert {held.job for held in look(body).holdings} == {JobName("", "PyTorch job", "n1:29500")}


def test_a_node_without_a_driver_says_why() -> None:
    body = said() | {"devices": [], "problems": ["The NVIDIA driver is not loaded."]}
    assert (look(body).node.gpus, look(body).problem) == (0, "The NVIDIA driver is not loaded.")


WRONG: dict[str, Callable[[dict[str, Any]], object]] = {
    "no object": lambda _: [1],
    "another one": lambda body: body | {"schema": "gputui.once/2"},
    "part missing": lambda body: {name: part for name, part in body.items() if name != "devices"},
    "wrong type": lambda body: body | {"devices": [{"memory": 3}]},
    "no number": lambda body: body | {"devices": [body["devices"][0] | {"power_w": float("nan")}]},
    "no word": lambda body: body | {"problems": [3]},
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_another_document_is_refused(change: Callable[[dict[str, Any]], object]) -> None:
    with pytest.raises(WrongDocumentError):
        look(change(said()))


ODD = (None, True, -1, 2**64, 10**400, 1e300, math.inf, "", "x\x1b[2J", [], {}, "9" * 5000)
"""JSON has numbers that no float can be, and 1e999, which is infinite in Python."""


def places_in(part: object, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all that is in a document."""
    yield way
    for key, value in part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ():
        yield from places_in(value, (*way, key))


def changed(part: Any, way: tuple[Any, ...], value: object) -> Any:
    """A copy with another value in a place."""
    if not way:
        return value
    copy = part.copy()
    copy[way[0]] = changed(part[way[0]], way[1:], value)
    return copy


def test_whatever_stands_anywhere_in_a_document_it_is_refused_or_can_be_shown() -> None:
    body = said(1, 1, mig=True)
    body["findings"] = [FOUND]
    refused = shown = 0
    for way, value in product(list(places_in(body)), ODD):
        line = json.dumps(changed(body, way, value)).replace("Infinity", "1e999")
        try:
            told = Told(N1, look_of(line.encode(), N1), 1000.0)
        except WrongDocumentError:
            refused += 1
            continue
        fleet, findings = gathered(told)
        findings = FleetWatch().take(fleet, findings)
        printed = json.dumps(fleet_document(fleet, findings), allow_nan=False) + plain(
            fleet, findings, 120, in_color=False
        )
        assert "\x1b" not in printed, (way, value)
        shown += 1
    assert min(refused, shown) > 500


def test_what_a_node_says_cannot_move_the_cursor() -> None:
    body = said()
    body["devices"][0]["name"] = "H100\x1b[2J"
    assert look(body).devices[0].name == "H100\\x1b[2J"


def gathered(*told: Told, now: float = 1000.0) -> tuple[Fleet, tuple[MachineFinding, ...]]:
    return Gathering(2.0).take(told, now)


def test_a_job_is_there_once_over_its_nodes() -> None:
    fleet, _ = gathered(Told(N1, look(said()), 1000.0), Told(N2, look(said(), N2), 1000.0))
    (job,) = fleet.jobs or ()
    assert (job.name.name, job.user, job.nodes, job.processes) == ("4711", "ana", 2, 8)
    assert len(fleet.ranks[job.name]) == 8
    assert (fleet.gpus, fleet.found[0].nodes) == (4, 2)
    assert missing(fleet) == []


def test_a_rank_that_holds_more_is_found_over_all_nodes() -> None:
    more = said()
    more["devices"][0]["processes"][0]["used_bytes"] = 30 * GIB
    fleet, _ = gathered(Told(N1, look(said()), 1000.0), Told(N2, look(more, N2), 1000.0))
    (finding,) = FleetWatch().take(fleet)
    assert (finding.kind, finding.node) == ("rank_more", N2)
    assert finding.title.startswith("Rank 0 of Slurm job 4711 of ana holds 30.0 GiB")


def test_an_idle_gpu_of_a_busy_job_is_found_after_ten_minutes() -> None:
    idle = said(8, 8)
    idle["devices"][3]["gpu_utilization_percent"] = 0
    gathering, findings = Gathering(10.0), []
    for time in range(10_000, 10_620, 10):
        fleet, _ = gathering.take([Told(N1, look(idle), float(time))], float(time))
        findings.append([finding.kind for finding in FleetWatch().take(fleet)])
    assert findings[0] == findings[50] == []
    assert findings[-1] == ["idle_in_job"]
    assert fleet.history[N1][-1] == pytest.approx(0.85, abs=0.01)


def test_a_node_that_does_not_answer_keeps_its_figures_and_is_a_finding() -> None:
    problem = NodeProblem("ssh does not reach n1: No route to host.", "Check that this works: ssh n1 true.", 990.0)
    fleet, told = gathered(Told(N1, look(said()), 980.0, problem), Told(N2))
    assert [(node.gpus, node.is_awaited) for node in fleet.nodes] == [(2, False), (0, True)]
    (finding,) = FleetWatch().take(fleet, told)
    assert (finding.kind, finding.title, finding.remedy) == (
        "unreached",
        "ssh does not reach n1: No route to host",
        problem.remedy,
    )


def test_what_a_node_has_found_itself_is_told_with_its_name() -> None:
    body = said()
    body["findings"] = [FOUND]
    fleet, told = gathered(Told(N1, look(body), 1000.0))
    (finding,) = FleetWatch().take(fleet, told)
    assert (finding.where, finding.title, finding.node, finding.since) == ("n1 GPU 1", "XID 79", N1, 900.0)


class Scripted:
    """A node that says what a test tells it to say: looks, or errors."""

    def __init__(self, script: list[NodeLook | GputuiError]) -> None:
        self.script = script

    def next_look(self, within_s: float) -> NodeLook:
        wait_until(lambda: self.script)
        step = self.script.pop(0)
        if isinstance(step, GputuiError):
            raise step
        return step

    def close(self) -> None:
        """A test ends it."""


def test_figures_stay_while_a_node_is_gone_and_are_new_when_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "AGAIN_S", 0.0)
    script: list[NodeLook | GputuiError] = [look(said())]
    machine = HostsMachine(["n1"], 2.0, reach=lambda _node, _arguments: Scripted(script))

    def fleet() -> Fleet:
        found = machine.look(Attention(), 2.0).fleet
        assert found is not None
        return found

    wait_until(lambda: fleet().gpus == 2)
    script.append(GputuiError("It is gone."))
    wait_until(lambda: fleet().nodes[0].problem)
    assert (fleet().gpus, fleet().nodes[0].problem.cause) == (2, "It is gone.")  # type: ignore[union-attr]
    assert fleet() is fleet()  # without news nothing is made anew
    script.append(look(said(3)))
    wait_until(lambda: fleet().gpus == 3)
    assert fleet().nodes[0].problem is None
    machine.close()
    script.append(GputuiError("closed"))


def test_a_node_that_was_gone_for_a_day_is_still_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "AGAIN_S", 0.0)
    script: list[NodeLook | GputuiError] = [GputuiError("It is gone.")] * 1500 + [look(said())]
    machine = HostsMachine(["n1"], 2.0, reach=lambda _node, _arguments: Scripted(script))
    wait_until(lambda: machine.look(Attention(), 2.0).fleet.gpus == 2)  # type: ignore[union-attr]
    machine.close()
    script.append(GputuiError("closed"))


def test_once_needs_one_node_that_answers() -> None:
    answers: dict[str, list[NodeLook | GputuiError]] = {
        "n1": [GputuiError("ssh does not reach n1: no.", "Check it.")],
        "n2": [look(said(), N2)],
    }
    fleet, _ = hosts_once(["n1", "n2"], reach=lambda node, _arguments: Scripted(answers[node]))
    assert [(node.place.node, node.gpus, bool(node.problem)) for node in fleet.nodes] == [
        ("n1", 0, True),
        ("n2", 2, False),
    ]
    answers["n1"] = [GputuiError("ssh does not reach n1: no.", "Check it.")]
    with pytest.raises(GputuiError, match=r"ssh does not reach n1: no\. Check it\."):
        hosts_once(["n1"], reach=lambda node, _arguments: Scripted(answers[node]))
