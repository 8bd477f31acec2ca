"""`gputui fleet --hosts` through real sshd, each with GPUs of its own, and what goes wrong with them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gputui.errors import GputuiError
from gputui.model.fleet.fleet import Fleet
from gputui.model.fleet.parts import Node as Row
from gputui.model.machine.snapshot import Attention
from gputui.sources import again
from gputui.sources.hosts import machine
from gputui.sources.hosts.connection import Connection
from gputui.sources.hosts.machine import HostsMachine
from gputui.sources.procfs import ProcFs
from tests.attach.nodes import SSHD, Node, reaching, running_node
from tests.fakegpu.lab import Lab
from tests.hanging import HANGS_S, wait_until
from tests.terminal.conftest import GPUTUI, inherited
from tests.terminal.pty_session import PtySession
from tests.torches import REPOSITORY

pytestmark = [pytest.mark.needs(SSHD), pytest.mark.needs("ssh")]
NAMES = ("n1", "n2", "n3", "n4")
GPUS = {"n1": 8, "n2": 4, "n3": 2, "n4": 1}
ON_N2 = 2 * 1024


class Cluster(NamedTuple):
    """Nodes by their names, the GPUs of each, and the variables of a viewer that reaches them."""

    nodes: dict[str, Node]
    labs: dict[str, Lab]
    variables: dict[str, str]

    def running(self, name: str) -> list[int]:
        """gputui on a node: not the shells and the ssh that name it."""
        home = f"HOME={self.nodes[name].folder}".encode()
        streams = [pid for pid in ProcFs().pids() if _is_stream(_content(pid, "cmdline"))]
        return [pid for pid in streams if home in _content(pid, "environ")]


def _content(pid: int, name: str) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().split(b"\0")
    except OSError:  # it has ended
        return []


def _is_stream(words: list[bytes]) -> bool:
    return words[1:4] == [b"-m", b"gputui", b"--json"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, fake_nvml_folder: Path) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    nodes, labs = {}, {}
    with ExitStack() as stack:
        for seed, name in enumerate(NAMES):
            labs[name] = Lab(folder / f"gpus of {name}", is_new=True)
            labs[name].up(GPUS[name], busy=name == "n2", seed=seed)
            variables = labs[name].environment_of(fake_nvml_folder)
            nodes[name] = stack.enter_context(
                running_node(folder / name, name=name, variables=variables, is_apart=True)
            )
        labs["n2"].process(os.getpid(), {0: ON_N2}, sm=40)
        yield Cluster(nodes, labs, reaching(folder, [node.folder / "config" for node in nodes.values()]))


@pytest.fixture
def eager(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., HostsMachine]]:
    """Makes machines that look often, and ask again at once."""
    monkeypatch.setenv("PATH", cluster.variables["PATH"])
    monkeypatch.setattr(machine, "INTERVAL_AT_LEAST_S", 0.2)
    monkeypatch.setattr(again, "AGAIN_S", 0.1)
    machines: list[HostsMachine] = []

    def make(*names: str) -> HostsMachine:
        machines.append(HostsMachine(names, 0.2))
        return machines[-1]

    yield make
    for each in machines:
        each.close()
    wait_until(lambda: not any(cluster.running(name) for name in NAMES))


def fleet_of(hosts: HostsMachine) -> Fleet:
    fleet = hosts.look(Attention(), 0.2).fleet
    assert fleet is not None
    return fleet


def row(hosts: HostsMachine, name: str) -> Row:
    return next(node for node in fleet_of(hosts).nodes if node.place.node == name)


def cause(hosts: HostsMachine, name: str) -> str:
    problem = row(hosts, name).problem
    return problem.cause if problem else ""


def printed(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gputui", "fleet", *arguments]
    environment = {**os.environ, **cluster.variables}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=HANGS_S)


def test_once_has_every_gpu_of_every_node(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("n2 slots=4\nn3\nn4\n")
    result = printed(cluster, "--hosts", "n1", f"@{file}", "--once", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    body: dict[str, Any] = json.loads(result.stdout)
    assert {node["node"]: node["device_count"] for node in body["nodes"]} == GPUS
    for node in body["nodes"]:
        state = cluster.labs[node["node"]].state
        told = [(gpu["uuid"], gpu["memory"]["used_bytes"]) for gpu in node["devices"]]
        expected = [(state.dev[number].uuid.decode(), ON_N2 << 20 if (node["node"], number) == ("n2", 0) else 0)
                    for number in range(GPUS[node["node"]])]  # fmt: skip
        assert told == expected
    (process,) = body["nodes"][1]["devices"][0]["processes"]
    assert (process["pid"], process["used_bytes"]) == (os.getpid(), ON_N2 << 20)


@pytest.mark.root
def test_each_node_has_a_network_and_a_name_of_its_own(cluster: Cluster) -> None:
    command = "hostname; tail -n +3 /proc/net/dev"
    for name in NAMES:
        told = subprocess.run(
            [f"{cluster.variables['PATH'].partition(':')[0]}/ssh", name, command],
            capture_output=True,
            text=True,
            check=True,
            timeout=HANGS_S,
        ).stdout.splitlines()
        assert (told[0], [line.split()[0] for line in told[1:]]) == (name, ["lo:"])


def test_nodes_that_cannot_be_reached_do_not_keep_the_others(cluster: Cluster) -> None:
    result = printed(cluster, "--hosts", "n4,nowhere.invalid", "--once")
    assert result.returncode == 0
    assert "nowhere.invalid: ssh does not reach nowhere.invalid: ssh: Could not resolve hostname" in result.stdout
    alone = printed(cluster, "--hosts", "nowhere.invalid", "--once")
    assert (alone.returncode, alone.stdout) == (1, "")
    assert alone.stderr.startswith("gputui: ssh does not reach nowhere.invalid: ")


def test_gputui_there_is_killed_and_comes_back(cluster: Cluster, eager: Callable[..., HostsMachine]) -> None:
    hosts = eager("n1", "n3")
    wait_until(lambda: fleet_of(hosts).gpus == 10)
    (there,) = cluster.running("n1")
    os.kill(there, signal.SIGKILL)
    wait_until(lambda: cause(hosts, "n1").startswith("gputui on n1 has ended, or the connection to it has"))
    assert row(hosts, "n1").gpus == 8
    wait_until(lambda: not row(hosts, "n1").problem)
    assert not row(hosts, "n3").problem


def test_gputui_there_hangs(
    cluster: Cluster, eager: Callable[..., HostsMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "SILENT_AT_LEAST_S", 1.0)
    hosts = eager("n2", "n3")
    wait_until(lambda: fleet_of(hosts).gpus == 6)
    (there,) = cluster.running("n2")
    os.kill(there, signal.SIGSTOP)
    try:
        wait_until(lambda: cause(hosts, "n2").startswith("gputui on n2 has said nothing for "))
        assert row(hosts, "n2").gpus == 4
    finally:
        os.kill(there, signal.SIGCONT)
    wait_until(lambda: not row(hosts, "n2").problem)


def test_a_driver_there_that_hangs_is_a_finding_of_that_node(
    cluster: Cluster, eager: Callable[..., HostsMachine]
) -> None:
    hosts = eager("n3", "n4")
    wait_until(lambda: fleet_of(hosts).gpus == 3)
    cluster.labs["n4"].fault("nvmlDeviceGetMemoryInfo_v2", delay_us=60_000_000)
    try:
        wait_until(lambda: any(each.where.startswith("n4 ") for each in hosts.look(Attention(), 0.2).findings))
        assert [each.kind for each in hosts.look(Attention(), 0.2).findings] == ["driver"]
    finally:
        cluster.labs["n4"].clear("faults")


def test_ssh_refuses_and_takes_us_again(cluster: Cluster, eager: Callable[..., HostsMachine]) -> None:
    hosts = eager("n3", "n4")
    wait_until(lambda: fleet_of(hosts).gpus == 3)
    cluster.nodes["n3"].login_with("stranger")
    try:
        (there,) = cluster.running("n3")
        os.kill(there, signal.SIGKILL)
        wait_until(lambda: "Permission denied" in cause(hosts, "n3"))
        assert row(hosts, "n3").gpus == 2
    finally:
        cluster.nodes["n3"].login_with("user")
    wait_until(lambda: not row(hosts, "n3").problem)


def test_a_node_without_gputui(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_node(tmp_path / "bare", name="bare", has_gputui=False) as node:
        monkeypatch.setenv("PATH", node.variables["PATH"])
        hosts = HostsMachine(["bare"], 2.0)
        wait_until(lambda: cause(hosts, "bare") == "bare has no gputui in its PATH, nor in ~/.local/bin.")
        hosts.close()


HOSTILE = {
    "binary": ("exec cat /dev/urandom", "What bare sends has no end"),
    "a line without end": ("exec cat /dev/zero", "What bare sends has no end"),
    "lines without end": ("exec yes", "What bare sends has no end"),
    "a document without end": ("""printf '{"schema": "'; exec cat /dev/zero""", "What bare sends has no end"),
    "a number of 400 digits": (
        """printf '{"schema": "gputui.once/1", "devices": [{"index": %0400d}]}\\n' 1; exec cat""",
        "gputui on bare prints something else",
    ),
    "little at a time": ("while printf x; do sleep 0.01; done", "gputui on bare has said nothing for 1 s."),
    "nothing": ("exec cat >/dev/null", "gputui on bare has said nothing for 1 s."),
    "an end": ("exit 3", "bare did not answer as gputui does"),
}


def test_what_a_hostile_node_sends_ends_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_node(tmp_path / "bare", name="bare", has_gputui=False) as node:
        monkeypatch.setenv("PATH", node.variables["PATH"])
        program = node.folder / "there" / "gputui"
        for what, (script, sentence) in HOSTILE.items():
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
            connection = Connection("bare", "--json")
            with pytest.raises(GputuiError) as caught:
                connection.next_look(1.0 if "1 s" in sentence else HANGS_S)
            connection.close()
            assert str(caught.value).startswith(sentence), what


def test_the_screen_keeps_its_keys_while_a_node_hangs(cluster: Cluster, tmp_path: Path) -> None:
    environment = inherited() | {"TERM": "xterm-256color", "HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    command = f"exec {GPUTUI} fleet --hosts n1,n2"
    session = PtySession(command, environment | cluster.variables, (120, 40))
    session.wait_for("2 nodes  12 GPUs")
    (there,) = cluster.running("n2")
    os.kill(there, signal.SIGSTOP)
    try:
        session.send(" ")
        session.wait_for("GPU 7")
        session.send("w")
        session.wait_for("What is wrong with these machines")
        session.send("q")
        assert session.end() == 0
    finally:
        os.kill(there, signal.SIGCONT)
        session.close()
    wait_until(lambda: not cluster.running("n1") and not cluster.running("n2"))
