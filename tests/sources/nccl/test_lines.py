"""Where the ranks of a job are, read from real processes of which NCCL answers for none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import pytest

from gputui.explain.ranks.collectives import findings_of
from gputui.model.collectives import Inquiry
from gputui.sources.nccl.lines import ranks_beside
from gputui.sources.nccl.source import RasSource
from gputui.sources.probe.main_thread_place import line_of_main_thread
from gputui.sources.procfs import ProcFs
from tests.hanging import wait_until
from tests.sources.children import Child, running

PROGRAM = """
import os, signal

def load_batch():
    signal.pause()

def all_reduce():
    signal.pause()

worker = os.fork()  # it inherits the variables, and is no rank
if not worker:
    signal.pause()
print("ready", worker, flush=True)
load_batch() if os.environ["RANK"] == "2" else all_reduce()
"""
START = "import sys; exec(compile(open(sys.argv[1]).read(), sys.argv[1], 'exec'))"


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return str(path)


@pytest.fixture
def ranks(program: str) -> Iterator[list[Child]]:
    """Three ranks of a job, of which the last has not come to its collective, and one of another job."""
    with ExitStack() as stack:
        stack.enter_context(running(START, program, **variables(3, port=29501)))
        started = [stack.enter_context(running(START, program, **variables(rank))) for rank in range(3)]
        for rank in started:
            wait_until(
                lambda pid=rank.pid: line_of_main_thread(pid).endswith(("load_batch", "all_reduce")),
                lambda: "a rank has not come to its line",
            )
        yield started


def variables(rank: int, port: int = 29500) -> dict[str, str]:
    return {"RANK": str(rank), "WORLD_SIZE": "4", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}


def test_the_ranks_of_a_job_are_found_without_their_workers_and_other_jobs(ranks: list[Child]) -> None:
    pids = [rank.pid for rank in ranks]
    assert ranks_beside(pids[1], ProcFs()) == dict(zip(pids, range(3), strict=True))
    assert RasSource().ranks_here(pids[0]) == 3


def test_of_a_process_that_is_no_rank_and_has_started_none_there_are_none() -> None:
    assert ranks_beside(1, ProcFs()) == {}
    with running("print('ready', flush=True); import time; time.sleep(600)") as lone:
        assert RasSource().ranks_here(lone.pid) == 0


def test_the_rank_that_has_not_come_to_its_collective_is_named_with_its_line(ranks: list[Child]) -> None:
    told: list[Inquiry] = []
    RasSource().compare(ranks[0].pid, "NCCL 2.28.9 is not asked.", told.append, Event())
    first, last = told
    assert len(first.lines) == 3
    assert not first.is_over
    found = findings_of(last)
    pid = ranks[2].pid
    assert found.headline.startswith(f"Rank 2 (PID {pid}) is at train.py:5 in load_batch, the other 2 ranks here at")
    (suspect,) = found.suspects
    assert last.here[suspect.place] == pid
    assert last.doing[pid] == "Its main thread waits for a signal (pause), at train.py:5 in load_batch."


def test_it_ends_early_when_nobody_looks_any_more(ranks: list[Child]) -> None:
    told: list[Inquiry] = []
    left = Event()
    left.set()
    RasSource().compare(ranks[0].pid, "NCCL 2.28.9 is not asked.", told.append, left)
    assert [inquiry.is_over for inquiry in told] == [False]
