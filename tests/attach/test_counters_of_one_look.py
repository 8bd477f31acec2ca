"""`gputui attach PID --once` of a program whose tensors do not come, and of one that grows meanwhile."""

from __future__ import annotations

import json
import os
import signal

import pytest

from gputui.commands.printed.attach import report
from gputui.model.machine.snapshot import Snapshot
from gputui.once.run import read_machine
from gputui.sources.probe import client as viewer
from gputui.sources.probe.client import ProbeClient
from gputui.sources.probe.one_moment import one_moment
from tests.attach.children import Python
from tests.attach.command import attach
from tests.hanging import NOT_WITHIN_S

HOLDING = """
    import gputui.probe, torch
    held = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    print("ready", gputui.probe.status(), flush=True)
    input()
"""


def test_the_counters_are_printed_where_no_look_comes(cuda_python: Python, monkeypatch: pytest.MonkeyPatch):
    child = cuda_python.fork(HOLDING)
    path = child.expect("ready")

    def stop_and_read() -> Snapshot:
        os.kill(child.pid, signal.SIGSTOP)
        monkeypatch.setattr(viewer, "RESULT_WITHIN_S", NOT_WITHIN_S)
        return read_machine()

    try:
        with ProbeClient(path, child.pid) as client:
            moment = one_moment(client, stop_and_read)
    finally:
        os.kill(child.pid, signal.SIGCONT)
    assert moment.devices[0].statistics.allocated_bytes == 64 << 20
    text = report(moment, (), 80, in_color=False)
    assert " ".join(text.split()).count("The tensors did not come within") == 1
    assert "The tensors did not come within" in text.partition("cuda:0")[0]
    assert "allocated 64.0 MiB" in text


GROWING = """
    import gputui.probe, threading, torch
    held = [torch.empty(16 << 20, dtype=torch.uint8, device="cuda")]
    print("ready", flush=True)
    while True:
        held.append(torch.empty(16 << 20, dtype=torch.uint8, device="cuda"))
        threading.Event().wait(0.02)
"""


def test_what_a_growing_program_holds_outside_pytorch_is_not_what_it_has_grown_by(cuda_python: Python):
    child = cuda_python.fork(GROWING)
    child.expect("ready")
    variables = {key: cuda_python.environment[key] for key in ("FAKEGPU_STATE", "LD_LIBRARY_PATH")}
    document = json.loads(attach(str(child.pid), "--once", "--json", environment=variables)[1])
    assert document["devices"][0]["outside_torch_bytes"] >= 518 << 20
