"""A kill at every step of the way leaves the program running, and as it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict

import pytest

from gputui.inject import checks
from gputui.inject.process.images import Memory
from gputui.inject.tracer_process import HelperError, _read_answer
from gputui.inject.ways.pending_call import STEPS
from gputui.sources.probe import listing
from gputui.sources.probe.client import ProbeError
from tests.attach.children import REPOSITORY, Python, wait_until
from tests.hanging import HANGS_S
from tests.inject import situations
from tests.inject.test_loading import ended_undisturbed, traces

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
KILLED_AT = """
import os, signal, sys
from gputui.inject import checks
from gputui.inject.ways.pending_call import queue

def reached(step):
    if step == {step!r}:
        os.kill(os.getpid(), signal.SIGKILL)

queue(checks.examine({pid}).plan, reached)
"""
LOADS = ("ready", "released")
"""The steps after which the probe starts all the same."""


@pytest.mark.parametrize("step", [step for step, _ in STEPS])
@pytest.mark.parametrize("situation", ["computing", "asleep in C without the interpreter"])
def test_a_kill_of_the_tracer_leaves_the_program_running(python: Python, situation: str, step: str) -> None:
    child = python.start(situations.source(situation))
    child.expect("ready")
    code = KILLED_AT.format(step=step, pid=child.pid)
    killed = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    if step in LOADS:
        wait_until(lambda: has_probe(child.pid), "the start of the probe")
        with listing.attach(child.pid) as client:
            client.end_probe()
    wait_until(lambda: not traces(child.pid), "the end of what was mapped")
    assert not has_probe(child.pid)
    ended_undisturbed(child)


HANGS_AT = """
import sys, time
from gputui.inject.ways import pending_call
from gputui.inject import tracer_process

def queue(plan, _reached):
    return pending_call.queue(plan, lambda step: step == {step!r} and time.sleep(1000))

tracer_process.queue, tracer_process._OWN_LIMIT_S = queue, 0.5
tracer_process.main("queue_call")
"""


@pytest.mark.parametrize("step", ["stopped", "started", "mapped"])
def test_a_helper_process_that_hangs_ends_and_leaves_the_program_running(python: Python, step: str) -> None:
    child = python.start(situations.source("computing"))
    child.expect("ready")
    plan = checks.examine(child.pid).plan
    assert plan is not None
    command = [sys.executable, "-c", HANGS_AT.format(step=step)]
    asked = json.dumps(asdict(plan)).encode()
    hung = subprocess.run(command, input=asked, env=ENVIRONMENT, check=False, capture_output=True, timeout=HANGS_S)
    with pytest.raises(HelperError, match="the helper process hung"):
        _read_answer(hung.stdout, hung.stderr)
    wait_until(lambda: not traces(child.pid), "the end of what was mapped")
    assert not has_probe(child.pid)
    ended_undisturbed(child)


def test_the_memory_of_a_process_that_has_ended_is_an_error(python: Python) -> None:
    child = python.start("print('ready', flush=True)\ninput()")
    child.expect("ready")
    with Memory(child.pid, is_writable=True) as memory:
        child.say("")
        assert child.ended() == 0
        with pytest.raises(OSError, match="no memory"):
            memory.write(0x10000, b"text")
        with pytest.raises(OSError, match="no memory"):
            memory.read(0x10000, 4)


def has_probe(pid: int) -> bool:
    try:
        listing.attach(pid).close()
    except (listing.CannotAttachError, ProbeError):  # a probe that starts may not answer yet
        return False
    return True


def test_a_kill_of_gputui_while_it_waits_leaves_the_program_running(python: Python) -> None:
    child = python.start(situations.source("waiting for a lock"))
    child.expect("ready")
    command = [sys.executable, "-m", "gputui", "attach", str(child.pid), "--once", "--yes"]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as gputui:
        wait_until(lambda: traces(child.pid) or has_probe(child.pid), "the call in the queue")
        gputui.kill()
    wait_until(lambda: has_probe(child.pid), "the probe, which ends by itself when nobody comes")
    with listing.attach(child.pid) as client:
        client.end_probe()
    wait_until(lambda: not traces(child.pid), "the end of what was mapped")
    ended_undisturbed(child)
