"""`gputui attach NODE:PID`, through a real sshd on loopback."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gputui.commands.reach.where import There
from gputui.model.attached.target import DisconnectKind
from gputui.protocol import frames
from gputui.sources.probe.client import ProbeError
from gputui.sources.probe.far import Place
from gputui.sources.procfs import ProcFs
from tests.attach.children import LIMIT_S, REPOSITORY, Child, Python, wait_until
from tests.attach.command import attach
from tests.attach.nodes import NODE, SSHD, Node, reaching, running_node
from tests.attach.small_training import ASLEEP, TRAINING
from tests.terminal.conftest import GPUTUI, inherited
from tests.terminal.pty_session import PtySession

WAITING = "import gputui.probe\nprint('ready', flush=True)\ninput()"
NO_PROBE = "print('ready', flush=True)\ninput()"
pytestmark = [pytest.mark.needs(SSHD), pytest.mark.needs("ssh")]


@pytest.fixture(scope="module")
def alpha(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running_node(tmp_path_factory.mktemp("nodes") / "alpha") as node:
        yield node


@pytest.fixture
def waiting(python: Python) -> Child:
    child = python.start(WAITING)
    child.expect("ready")
    return child


def once(word: str, node: Node) -> tuple[int, dict[str, Any]]:
    status, output, errors = attach(word, "--once", "--json", environment=node.variables)
    assert errors == ""
    return status, json.loads(output)


def refusal(node: Node, word: str) -> str:
    status, output, errors = attach(word, "--once", environment=node.variables)
    assert (status, output) == (1, "")
    return errors


def comparable(document: dict[str, Any]) -> dict[str, Any]:
    """Without what is read beside the probe, and what each look has of its own."""
    own = {"node", "cost", "problems", "findings", "host"}
    kept = {name: value for name, value in document.items() if name not in own}
    beside = {"nvml_index", "nvml", "outside_torch_bytes"}
    kept["devices"] = [{name: value for name, value in d.items() if name not in beside} for d in document["devices"]]
    return kept


@pytest.mark.every_torch
def test_a_training_on_another_machine_is_described_as_on_this_one(torch_python: Python, alpha: Node) -> None:
    child = torch_python.fork(TRAINING + ASLEEP)
    child.expect("ready")
    _, near = once(str(child.pid), alpha)
    status, far = once(f"{NODE}:{child.pid}", alpha)
    assert (status, near["node"], far["node"]) == (0, None, NODE)
    assert comparable(far) == comparable(near)
    assert far["host"]["cpu_tensor_bytes"] == near["host"]["cpu_tensor_bytes"]
    assert far["host"]["rss_bytes"] is None
    for device in far["devices"]:
        assert set(device["nvml"].values()) == {None}
        assert any(
            f"Used memory of device {device['index']} is not known: it runs on {NODE}" in text
            for text in far["problems"]
        )


def test_the_report_names_the_machine(waiting: Child, alpha: Node) -> None:
    status, output, errors = attach(f"{NODE}:{waiting.pid}", "--once", environment=alpha.variables)
    assert (status, errors) == (0, "")
    assert output.startswith(f"{NODE}:{waiting.pid}  ")


def test_a_program_without_probe_gets_it_only_if_the_viewer_says_so(python: Python, alpha: Node) -> None:
    child = python.start(NO_PROBE)
    child.expect("ready")
    word = f"{NODE}:{child.pid}"
    refused = f"gputui: Process {child.pid} on {NODE} has no probe. To put it in: gputui attach {word} --yes.\n"
    assert refusal(alpha, word) == refused
    status, output, errors = attach(word, "--once", "--yes", environment=alpha.variables)
    assert (status, errors) == (0, "")
    assert output.startswith(word)
    assert attach(word, "--detach", environment=alpha.variables) == (0, "", "")
    assert refusal(alpha, word) == refused


def test_a_process_that_is_not_there(alpha: Node) -> None:
    assert refusal(alpha, f"{NODE}:{2**31 - 1}").startswith(f"gputui: gputui on {NODE} says: There is no process")


@pytest.fixture
def follower(python: Python, waiting: Child, alpha: Node) -> Child:
    """A viewer in lines, once it has shown its first."""
    viewer = python.run([sys.executable, "-m", "gputui", "attach", f"{NODE}:{waiting.pid}"], **alpha.variables)
    viewer.expect(f"{NODE}:{waiting.pid}")
    return viewer


def test_how_the_program_ended_is_told_from_there(follower: Child, waiting: Child) -> None:
    waiting.process.send_signal(signal.SIGKILL)
    assert follower.ended() == 0
    assert follower.errors == (
        f"gputui: Process {waiting.pid} was killed by SIGKILL. "
        "The kernel also sends it when the host runs out of memory: see `dmesg`.\n"
    )


def test_a_relay_that_is_killed_is_said_and_the_program_goes_on(follower: Child, waiting: Child) -> None:
    (relay,) = relays_of(waiting.pid)
    os.kill(relay, signal.SIGKILL)
    assert follower.ended() == 0
    assert follower.errors.startswith(
        f"gputui: The connection to process {waiting.pid} has failed: the ssh connection to {NODE} ended"
    )
    waiting.attach().close()


def test_the_screens_say_that_the_line_is_lost_and_keep_their_keys(waiting: Child, alpha: Node, tmp_path: Path) -> None:
    environment = inherited() | {"TERM": "xterm-256color", "HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    session = PtySession(f"exec {GPUTUI} attach {NODE}:{waiting.pid}", environment | alpha.variables)
    try:
        session.wait_for(f"{NODE}:{waiting.pid}")
        (relay,) = relays_of(waiting.pid)
        os.kill(relay, signal.SIGKILL)
        session.wait_for(f"the ssh connection to {NODE} ended")
        session.wait_for("Below is the last known state")
        session.send("6")
        session.wait_for("Rank  ")
        session.send("\x1b")  # there is no monitor of another machine below
        assert session.end() == 0
    finally:
        session.close()


def test_the_relay_ends_with_its_viewer(follower: Child, waiting: Child) -> None:
    assert len(relays_of(waiting.pid)) == 1
    follower.process.send_signal(signal.SIGKILL)
    wait_until(lambda: not relays_of(waiting.pid), "the end of the relay")
    waiting.attach().close()


def relays_of(pid: int) -> list[int]:
    """The relays to a process that run: not the shells and ssh clients that name them."""
    words = [b"-m", b"gputui", b"relay", str(pid).encode()]
    return [number for number in ProcFs().pids() if _words_of(number)[1:] == words]


def _words_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:  # it has ended
        return []


def test_a_recording_is_made_and_replayed_with_the_machine(
    python: Python, waiting: Child, alpha: Node, tmp_path: Path
) -> None:
    file = tmp_path / "far.rec"
    command = [sys.executable, "-m", "gputui", "attach", f"{NODE}:{waiting.pid}", "--record", str(file), "--json"]
    viewer = python.run(command, **alpha.variables)
    assert json.loads(viewer.expect(""))["node"] == NODE
    waiting.say("")
    assert viewer.ended() == 0
    done = subprocess.run(
        [sys.executable, "-m", "gputui", "open", str(file), "--once", "--json"],
        capture_output=True,
        check=True,
        cwd=REPOSITORY,
        timeout=LIMIT_S,
    )
    assert json.loads(done.stdout.splitlines()[-1])["node"] == NODE


def test_ranks_of_a_job_on_two_machines_stand_beside_each_other(
    torch_python: Python, alpha: Node, tmp_path: Path
) -> None:
    with running_node(tmp_path / "beta", name="beta") as beta:
        variables = reaching(tmp_path, [alpha.folder / "config", beta.folder / "config"])
        ranks = [torch_python.fork(TRAINING + ASLEEP, RANK=str(rank), WORLD_SIZE="2") for rank in range(2)]
        for rank in ranks:
            rank.expect("ready")
        words = [f"{node}:{rank.pid}" for node, rank in zip((NODE, "beta"), ranks, strict=True)]
        environment = inherited() | {"TERM": "xterm-256color", "HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
        session = PtySession(f"exec {GPUTUI} attach {' '.join(words)}", environment | variables, (120, 40))
        try:
            session.wait_for(words[0])
            session.send("6")
            for number, node in enumerate((NODE, "beta")):
                session.wait(lambda: re.search(rf" {number}/2 +{ranks[number].pid} +{node} ", session.text))  # noqa: B023 - called at once
        finally:
            session.close()
        status, output, errors = attach(*words, "--once", "--json", environment=variables)
        assert (status, errors) == (0, "")
        documents = [json.loads(line) for line in output.splitlines()]
        told = [(document["node"], document["pid"], document["rank"]) for document in documents]
        assert told == [(NODE, ranks[0].pid, 0), ("beta", ranks[1].pid, 1)]


def test_a_key_that_the_machine_does_not_know(alpha: Node) -> None:
    alpha.login_with("stranger")
    try:
        text = refusal(alpha, f"{NODE}:1")
    finally:
        alpha.login_with("user")
    assert text.startswith(f"gputui: ssh does not reach {NODE}: ")
    assert "Permission denied" in text
    assert f"Check that this works: ssh {NODE} true." in text


def test_a_machine_whose_key_is_another_one(alpha: Node) -> None:
    alpha.trust((alpha.folder / "stranger.pub").read_text())
    try:
        text = refusal(alpha, f"{NODE}:1")
    finally:
        alpha.trust((alpha.folder / "host.pub").read_text())
    assert text == (
        f"gputui: ssh does not reach {NODE}: Host key verification failed. "
        f"Connect once by hand, and compare the key: ssh {NODE}.\n"
    )


def test_a_machine_that_nobody_knows(alpha: Node) -> None:
    text = refusal(alpha, "nowhere.invalid:1")
    assert text.startswith("gputui: ssh does not reach nowhere.invalid: ssh: Could not resolve hostname")
    assert text.endswith("Check the name, or add it to ~/.ssh/config.\n")


def test_a_machine_without_gputui(tmp_path: Path) -> None:
    with running_node(tmp_path / "bare", has_gputui=False) as node:
        assert refusal(node, f"{NODE}:1") == (
            f"gputui: {NODE} has no gputui in its PATH, nor in ~/.local/bin. "
            f"Install it there: ssh {NODE} uv tool install gputui (or pipx install gputui).\n"
        )


def test_a_viewer_of_another_version(waiting: Child, alpha: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", alpha.variables["PATH"])
    monkeypatch.setattr(frames, "VERSION", frames.VERSION + 1)
    with pytest.raises(ProbeError) as raised:
        There([Place(NODE, waiting.pid)]).attach(waiting.pid)
    assert raised.value.disconnect.kind is DisconnectKind.OTHER_VERSION


def test_an_old_gputui_there_and_a_shell_that_talks(waiting: Child, tmp_path: Path) -> None:
    with running_node(tmp_path / "old") as node:
        program = node.folder / "there" / "gputui"
        program.write_text(f"#!/bin/sh\necho Welcome to gptune, or gptu\n{program.read_text().splitlines()[1]}\n")
        assert once(f"{NODE}:{waiting.pid}", node)[0] == 0
        program.write_text("#!/bin/sh\necho 'There is no such command.' >&2\nexit 2\n")
        assert "Update it there: ssh alpha uv tool upgrade gputui" in refusal(node, f"{NODE}:1")
