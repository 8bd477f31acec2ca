"""Orphans: real processes whose launcher was killed, and those that somebody has put into the background."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from gputui.sources.processes import ProcessSource
from gputui.sources.processes.orphans import Orphans
from gputui.sources.procfs import ProcFs
from tests.hanging import wait_until
from tests.sources.children import look_at
from tests.sources.false_proc import FalseProc

WORKER = "import time; time.sleep(600)"
LAUNCHER = f"""
import subprocess, sys, time
worker = subprocess.Popen([sys.executable, "-c", {WORKER!r}], start_new_session="--own" in sys.argv)
print(worker.pid, flush=True)
time.sleep(600)
"""


class Family(NamedTuple):
    """A launcher, which leads its process group, and what it has started."""

    launcher: subprocess.Popen[str]
    worker_pid: int


@contextmanager
def family(*arguments: str) -> Iterator[Family]:
    command = [sys.executable, "-c", LAUNCHER, *arguments]
    launcher = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert launcher.stdout
    worker_pid = int(launcher.stdout.readline())
    try:
        yield Family(launcher, worker_pid)
    finally:
        os.kill(worker_pid, signal.SIGKILL)
        launcher.kill()
        launcher.wait()
        launcher.stdout.close()


def is_orphan(pid: int) -> bool:
    (process,) = look_at(ProcessSource(in_private_namespace=False), pid)
    return process.is_orphan


def was_taken_over(each: Family) -> bool:
    stat = ProcFs().stat(each.worker_pid)
    return stat is not None and stat.parent_pid != each.launcher.pid


def end_launcher(each: Family) -> None:
    each.launcher.kill()
    each.launcher.wait()
    wait_until(lambda: was_taken_over(each))


def test_a_worker_whose_launcher_was_killed_is_an_orphan() -> None:
    with family() as each:
        assert not is_orphan(each.worker_pid)
        end_launcher(each)
        if ProcFs().stat(each.worker_pid).parent_pid != 1:
            return  # a subreaper that is no init has taken it over: it is somebody's
        assert is_orphan(each.worker_pid)


def test_a_program_with_a_session_of_its_own_was_put_into_the_background() -> None:
    with family("--own") as each:
        end_launcher(each)
        assert not is_orphan(each.worker_pid)


@pytest.mark.parametrize(("parent", "is_found"), [(b"systemd", True), (b"bash", False)])
def test_a_rank_is_an_orphan_also_with_a_session_of_its_own(tmp_path, *, parent: bytes, is_found: bool) -> None:
    proc = FalseProc(tmp_path / "proc")
    proc.add(1, parent=0, name=parent)
    proc.add(42, parent=1)
    files = ProcFs(proc.root)
    assert Orphans(files).has(files.stat(42), is_rank=True) == is_found
    assert not Orphans(files).has(files.stat(42), is_rank=False)
