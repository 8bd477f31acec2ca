"""A real Prometheus that is stopped and started, and a page of a node that is cut: what the table says meanwhile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gputui.model.fleet.fleet import Fleet, TroubleKind
from gputui.model.machine.snapshot import Attention
from gputui.sources import again
from gputui.sources.prometheus import answers
from gputui.sources.prometheus import machine as machines
from gputui.sources.prometheus.access import access_to
from gputui.sources.prometheus.client import Server
from gputui.sources.prometheus.machine import FleetMachine
from gputui.sources.prometheus.reader import MISSED
from tests.export.prometheus import running
from tests.fleet.pages import FLEET
from tests.fleet.serving import pages_of
from tests.hanging import wait_until

pytestmark = [pytest.mark.needs("prometheus")]


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "AGAIN_S", 0.1)
    monkeypatch.setattr(machines, "RESTS", 0)
    monkeypatch.setattr(answers, "LONGEST_S", 1.0)  # a young server has not scraped often enough to tell


def configuration(folder: Path, names: list[str], address: str) -> Path:
    targets = [{"targets": [address], "labels": {"instance": name, "__metrics_path__": f"/{name}"}} for name in names]
    path = folder / "prometheus.yml"
    job = {"job_name": "gpus", "scrape_interval": "1s", "static_configs": targets}
    path.write_text(json.dumps({"scrape_configs": [job]}))
    return path


def fleet_of(machine: FleetMachine) -> Fleet:
    fleet = machine.look(Attention(), 1.0).fleet
    assert fleet is not None
    return fleet


def kind_of_trouble(machine: FleetMachine) -> TroubleKind | None:
    trouble = fleet_of(machine).trouble
    return trouble.kind if trouble else None


def test_figures_stay_with_a_sentence_while_the_server_or_a_page_is_gone(tmp_path: Path) -> None:
    first, second, *_ = FLEET
    pages = {name: FLEET[name] for name in (first, second)}
    with pages_of(pages) as address:
        path = configuration(tmp_path, [first, second], address)
        with running(path, tmp_path / "data") as prometheus:
            prometheus.await_answer('count(up{job="gpus"} == 1) == 2')
            url = prometheus.url
            machine = FleetMachine(Server(access_to(url)))
            wait_until(lambda: len(fleet_of(machine).nodes) == 2)
            gpus = fleet_of(machine).gpus
            whole = pages[first]
            pages[first] = whole[: whole.index('UUID="', len(whole) // 2) + 8]  # in the middle of a label
            wait_until(lambda: any(node.problem for node in fleet_of(machine).nodes))
            (cut,) = [node for node in fleet_of(machine).nodes if node.problem]
            assert (cut.problem.cause, cut.problem.is_brief, fleet_of(machine).gpus) == (MISSED, True, gpus)
            pages[first] = whole
            wait_until(lambda: not any(node.problem for node in fleet_of(machine).nodes))
        wait_until(lambda: kind_of_trouble(machine) is TroubleKind.UNREACHABLE)
        assert fleet_of(machine).gpus == gpus
        with running(path, tmp_path / "data", int(url.rpartition(":")[2])):
            wait_until(lambda: not fleet_of(machine).trouble)
            wait_until(lambda: fleet_of(machine).gpus == gpus)
        machine.close()
