"""`gputui attach PID --json`: a document a line for each look, until the process or the reader has gone."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from gputui.commands.attach.follow import Mailbox
from gputui.sources.files.recording.reader import Recording
from gputui.sources.files.recording.story import Story
from tests import torches
from tests.attach.children import LIMIT_S, REPOSITORY, Child, Python
from tests.attach.small_training import TRAINING
from tests.explain.moments import GREETING, moment

GROWS = """
    import time
    kept = []
    for number in range(1200):
        step()
        kept.append(torch.ones(1 << 16, device=device))
        time.sleep(0.05)
"""
"""Something changes all the time, so that looks come by themselves."""


def growing(python: Python) -> Child:
    child = python.fork(TRAINING + GROWS)
    child.expect("ready")
    return child


def follow(python: Python, *words: str) -> Child:
    """`gputui attach WORDS --json`, with its output in a pipe."""
    return python.run([sys.executable, "-m", "gputui", "attach", *words, "--json"], LD_PRELOAD="")


def next_document(viewer: Child) -> dict[str, Any]:
    return json.loads(viewer.expect(""))


def test_each_look_is_a_document_on_a_line_until_the_process_ends(torch_python: Python) -> None:
    child = growing(torch_python)
    viewer = follow(torch_python, str(child.pid))
    documents = [next_document(viewer) for _ in range(3)]
    assert {(document["schema"], document["pid"]) for document in documents} == {("gputui.attach/1", child.pid)}
    assert all(document["cost"]["probe_cpu_ms"] > 0 for document in documents)
    held = [_held_bytes(document) for document in documents]
    assert held[0] < held[1] < held[2]
    child.process.send_signal(signal.SIGKILL)
    assert viewer.ended() == 0
    assert viewer.errors.startswith(f"gputui: Process {child.pid} was killed by SIGKILL.")


def _held_bytes(document: dict[str, Any]) -> int:
    """What the tensors hold on the device, or on the host where PyTorch has no CUDA."""
    on_devices = sum(device["allocator"]["allocated_bytes"] for device in document["devices"])
    return on_devices or document["host"]["cpu_tensor_bytes"]


def test_followed_documents_find_a_leak(cuda_path: str, tmp_path: Path, sockets: Path) -> None:
    """A single look cannot, and the first document is that of a single look."""
    python = Python(cuda_path, tmp_path, torches.fake_cuda(cuda_path, tmp_path))
    viewer = follow(python, str(growing(python).pid))
    kinds = [_kinds(next_document(viewer))]
    while "leak" not in kinds[-1]:
        kinds.append(_kinds(next_document(viewer)))
    python.end()
    assert "leak" not in kinds[0]
    assert kinds[-1][0] == "leak"


def _kinds(document: dict[str, Any]) -> list[str]:
    return [finding["kind"] for finding in document["findings"]]


def test_it_ends_quietly_when_the_reader_goes(torch_python: Python) -> None:
    """Also where no further look comes, and so nothing is written to the broken pipe."""
    child = torch_python.fork(TRAINING + "\n    input()\n")
    child.expect("ready")
    command = f"{shlex.quote(sys.executable)} -m gputui attach {child.pid} --json | head -1"
    done = subprocess.run(
        ["bash", "-c", f'set -o pipefail; {command}; echo "${{PIPESTATUS[*]}}"'],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True, timeout=LIMIT_S, check=True,
    )  # fmt: skip
    line, statuses = done.stdout.splitlines()
    assert json.loads(line)["pid"] == child.pid
    assert (statuses, done.stderr) == ("0 0", "")


def test_it_ends_quietly_on_ctrl_c(torch_python: Python) -> None:
    viewer = follow(torch_python, str(growing(torch_python).pid))
    next_document(viewer)
    viewer.process.send_signal(signal.SIGINT)
    assert (viewer.ended(), viewer.errors) == (0, "")


def test_documents_of_several_processes_carry_their_pid(torch_python: Python) -> None:
    first, second = growing(torch_python), growing(torch_python)
    viewer = follow(torch_python, str(first.pid), str(second.pid))
    seen: set[int] = set()
    while seen != {first.pid, second.pid}:
        seen.add(next_document(viewer)["pid"])
    first.process.send_signal(signal.SIGKILL)
    while f"Process {first.pid} was killed" not in viewer.errors:
        next_document(viewer)
    assert next_document(viewer)["pid"] == second.pid
    second.process.send_signal(signal.SIGKILL)
    assert viewer.ended() == 0


def test_documents_can_be_printed_while_recording(torch_python: Python, tmp_path: Path) -> None:
    child = growing(torch_python)
    path = tmp_path / "job.gputui"
    viewer = follow(torch_python, str(child.pid), "--record", str(path))
    documents = [next_document(viewer) for _ in range(2)]
    child.process.send_signal(signal.SIGKILL)
    assert viewer.ended() == 0
    looks = {moment.look_time for moment in Story(Recording(path)).moments()} - {0.0}
    assert len(looks) >= len(documents)


def test_a_process_that_cannot_be_attached_to_is_refused_before_anything_is_printed(python: Python) -> None:
    child = python.start("print('ready', flush=True)\ninput()")
    child.expect("ready")
    viewer = follow(python, str(child.pid))
    assert viewer.ended() == 1
    assert "has no probe" in viewer.errors


def test_a_reader_that_is_too_slow_gets_the_newest_look_of_each_process() -> None:
    mailbox = Mailbox()
    for time in (1.0, 2.0, 3.0):
        for pid in (7, 8):
            mailbox.put(replace(moment(time=time), greeting=replace(GREETING, pid=pid)))
    assert [(waiting.pid, waiting.time) for waiting in mailbox.take(0.0)] == [(7, 3.0), (8, 3.0)]
    assert list(mailbox.take(0.0)) == []
