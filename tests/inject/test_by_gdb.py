"""The way by gdb, forced on a processor for which there is machine code."""

from __future__ import annotations

import os
import subprocess
from itertools import product
from pathlib import Path

import pytest

from gputui.inject import checks
from gputui.inject.loading import load
from gputui.inject.refusals import Refused
from gputui.inject.ways import x86_64
from gputui.sources.probe import listing, loading
from tests.attach.children import Python, wait_until
from tests.hanging import NOT_WITHIN_S
from tests.inject import situations
from tests.inject.test_loading import cycle, ended_undisturbed
from tests.other_pythons import other_python
from tests.plugins.left_out import WORKING_GDB
from tests.scale import SCALE

pytestmark = pytest.mark.needs(WORKING_GDB)


@pytest.fixture(autouse=True)
def _without_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(x86_64, "IS_HERE", False)


NAMES, SITUATIONS = ("this", "python3.8", "python3.13"), ("computing", "asleep", "being profiled")
IN_DAILY_USE = [*zip(NAMES, SITUATIONS, strict=True)]


@pytest.mark.long
@pytest.mark.parametrize(("name", "situation"), product(NAMES, SITUATIONS) if SCALE > 1 else IN_DAILY_USE)
def test_gdb_puts_the_probe_in_and_the_program_does_not_notice(python: Python, name: str, situation: str) -> None:
    path = python.path if name == "this" else other_python(name) or python.path
    child = python.run([path, "-c", situations.source(situation)])
    child.expect("ready")
    for _ in range(2 if SCALE > 1 else 1):
        target = checks.examine(child.pid)
        assert (target.plan, target.gdb is not None) == (None, True)
        cycle(child)
    ended_undisturbed(child)


def test_a_probe_that_gdb_has_queued_can_be_withdrawn(python: Python) -> None:
    child = python.start(
        """
        import sys
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(1000):
            pass
        print("on", flush=True)
        sys.stdin.readline()
        """
    )
    child.expect("ready")
    with pytest.raises(loading.CannotLoadError, match="did not load the probe within 0 s"):
        loading.put_probe_in(child.pid, lambda _sentence: None, limit_s=NOT_WITHIN_S)
    child.say("on")
    child.expect("on")
    with pytest.raises(listing.NoProbeError):
        listing.attach(child.pid)
    child.say("end")
    assert (child.ended(), child.errors) == (0, "")


def test_the_tracer_that_keeps_gdb_out_is_named(python: Python) -> None:
    child = python.start(situations.source("computing"))
    child.expect("ready")
    target = checks.examine(child.pid)
    with subprocess.Popen(["strace", "-o", "/dev/null", "-p", str(child.pid)], stderr=subprocess.DEVNULL) as tracer:
        status = Path(f"/proc/{child.pid}/status")
        wait_until(lambda: f"TracerPid:\t{tracer.pid}" in status.read_text(), "strace")
        with pytest.raises(Refused) as caught:
            load(target)
        tracer.terminate()
    assert caught.value.rule == "traced"
    ended_undisturbed(child)


def test_without_gdb_the_remedy_is_to_install_it(python: Python, monkeypatch: pytest.MonkeyPatch) -> None:
    child = python.start(situations.source("computing"))
    child.expect("ready")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Refused) as caught:
        load(checks.examine(child.pid))
    assert (caught.value.rule, "by gdb, which is not installed" in caught.value.cause) == ("no way", True)
    assert os.uname().machine in caught.value.cause
    ended_undisturbed(child)
