"""The files of deploy/: rules, alerts, board, manifests and the unit, by the programs that read them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from deploy.make import MADE, RULES
from gputui.export.collector import FAMILIES
from gputui.export.families import names_of
from tests.export.pages import Page, Scrapes
from tests.export.prometheus import Prometheus, running
from tests.export.readings import cluster_node
from tests.export.test_page import Fixed
from tests.export.test_server import serving
from tests.torches import REPOSITORY

DEPLOY = REPOSITORY / "deploy"
NAME = re.compile(r"\bgputui_\w+")
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


def expressions() -> list[str]:
    """The queries of the board, with what a person chooses above it."""
    board = json.loads((DEPLOY / "grafana" / "board.json").read_text())
    chosen = {"$cluster": ".*", "$node": ".*", "$job": ".*", "$__rate_interval": "1m"}
    found = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    for name, value in chosen.items():
        found = [expression.replace(name, value) for expression in found]
    return found


@pytest.mark.parametrize("path", MADE, ids=lambda path: path.name)
@pytest.mark.needs("the module grafana_foundation_sdk")
def test_files_that_are_made_are_as_they_would_be_made(path: Path) -> None:
    assert path.read_text() == MADE[path](), "python -m deploy.make"


@pytest.mark.needs("promtool")
@pytest.mark.parametrize("words", [["check", "rules", *RULES], ["test", "rules", "alerts_test.yml"]], ids=" ".join)
def test_promtool_accepts_the_rules(words: list[str]) -> None:
    done = subprocess.run(["promtool", *words], cwd=DEPLOY / "prometheus", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_tested() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
    tests = yaml.safe_load((DEPLOY / "prometheus" / "alerts_test.yml").read_text())
    spoken = {
        case["alertname"] for test in tests["tests"] for case in test.get("alert_rule_test", []) if case["exp_alerts"]
    }
    assert [rule["alert"] for group in rules["groups"] for rule in group["rules"] if rule["alert"] not in spoken] == []


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("*.[yj][ams]*")), ids=lambda path: path.name)
def test_no_file_asks_for_a_metric_that_does_not_exist(path: Path) -> None:
    asked = set(NAME.findall(path.read_text()))
    assert asked - set(names_of(FAMILIES)) == set()


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_are_objects_of_kubernetes(path: Path) -> None:
    for manifest in yaml.safe_load_all(path.read_text()):
        assert {"apiVersion", "kind", "metadata"} <= set(manifest)
        assert manifest["metadata"].get("namespace", "gputui") == "gputui"


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize("name", ["gputui-export.service", "gputui-record.service"])
def test_systemd_accepts_the_unit(tmp_path: Path, name: str) -> None:
    unit = (DEPLOY / "systemd" / name).read_text()
    copy = tmp_path / name
    copy.write_text(unit.replace("/opt/gputui/bin/gputui ", f"{shutil.which('true')} "))
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Prometheus]:
    """A Prometheus with the configuration of deploy/, which scrapes a node with two GPUs and two ranks of a job."""
    with serving() as url:
        folder = tmp_path / "prometheus"
        shutil.copytree(DEPLOY / "prometheus", folder)
        targets = folder / "targets" / "gpu-nodes.yml"
        address = url.removeprefix("http://").rstrip("/")
        targets.write_text(json.dumps([{"labels": {"cluster": "lab"}, "targets": [address]}]))
        configuration = folder / "prometheus.yml"
        configuration.write_text(re.sub(r"_interval: \d+s", "_interval: 1s", configuration.read_text()))
        with running(configuration, tmp_path / "data") as prometheus:
            yield prometheus


@pytest.mark.needs("prometheus")
def test_a_real_prometheus_scrapes_the_page_and_answers_each_query(prometheus: Prometheus) -> None:
    prometheus.await_answer('up{job="gputui", cluster="lab", node="127.0.0.1"} == 1')
    page = Scrapes(Fixed(cluster_node(gpus=1, ranks=1))).page()
    for name in sorted(page.names):
        assert prometheus.ask(name), name
    ((_, reserved),) = prometheus.ask("gputui_torch_reserved_bytes")
    assert [reserved] == page.of("gputui_torch_reserved_bytes")
    for expression in [*expressions(), "gpu:busy:ratio", "slurm_job:gputui_process_memory_used_bytes:sum"]:
        prometheus.await_answer(expression)
    ((labels, _),) = prometheus.ask("slurm_job:gputui_process_memory_used_bytes:sum")
    assert (labels["cluster"], labels["slurm_job_id"], labels["user"]) == ("lab", "4711", "ana")
    assert {group["name"] for group in prometheus.rules()} == {
        "gputui-records",
        "gputui-exporter",
        "gputui-health",
        "gputui-work",
    }
    assert {rule["health"] for group in prometheus.rules() for rule in group["rules"]} <= {"ok", "unknown"}


def test_the_page_of_costs_has_the_figures_of_today() -> None:
    text = (REPOSITORY / "docs" / "export.md").read_text()
    for ranks in (1, 8, 64):
        page: Page = Scrapes(Fixed(cluster_node(gpus=8, ranks=ranks))).page()
        own = [sample for sample in page.samples if sample.name.startswith("gputui_")]
        size = round(len(page.text.encode()) / 1000)
        assert f"| 8 | {ranks} | {len(own):,} | {size} KB |" in text
