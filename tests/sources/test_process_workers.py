"""Workers and ranks: real families of processes."""

import os
import signal

import pytest

from gputui.model.machine.process import Rank
from gputui.model.reading import Absent
from gputui.sources.processes import ProcessSource
from gputui.sources.processes.ranks import JobPlace, is_launcher, place_in_job
from gputui.sources.processes.rollups import Rollups
from gputui.sources.procfs import ProcFs
from gputui.sources.procfs_formats import Rollup
from gputui.units import MIB
from tests.hanging import wait_until
from tests.sources.children import FAMILY, IDLE, SHARED_MIB, WORKERS, as_nobody, look_at, running


def source(**options) -> ProcessSource:
    return ProcessSource(in_private_namespace=False, **options)


def test_memory_shared_by_workers_is_counted_once():
    with running(FAMILY) as child:
        watcher = source()
        wait_until(lambda: look_at(watcher, child.pid)[0].workers.is_proportional)
        (process,) = look_at(watcher, child.pid)
        rss = sum(ProcFs().stat(int(pid)).rss_bytes for pid in child.words)
    workers = process.workers
    assert workers.count == WORKERS
    assert rss > WORKERS * SHARED_MIB * MIB
    # A page mapped by the parent and its workers counts as 1/(WORKERS + 1) for each.
    assert workers.resident_bytes < (SHARED_MIB + 60) * MIB
    assert SHARED_MIB * MIB < workers.resident_bytes + process.pss_bytes < (SHARED_MIB + 80) * MIB


@pytest.mark.root
def test_without_pss_workers_count_with_their_full_rss():
    with running(FAMILY) as child:
        (process,) = as_nobody(lambda: look_at(source(), child.pid))
    assert process.workers.count == WORKERS
    assert not process.workers.is_proportional
    assert process.workers.resident_bytes > WORKERS * SHARED_MIB * MIB
    assert process.pss_bytes == Absent("owned by root: permission denied")


def test_a_worker_that_holds_a_device_is_a_process_of_its_own():
    with running(FAMILY) as child:
        first = int(child.words[0])
        parent, worker = look_at(source(), child.pid, first)
    assert parent.workers.count == WORKERS - 1
    assert worker.workers is None
    assert worker.parent_pid == child.pid


def test_a_worker_that_ends_is_not_counted_at_the_next_look():
    with running(FAMILY) as child:
        watcher = source()
        look_at(watcher, child.pid)
        os.kill(int(child.words[0]), signal.SIGKILL)
        wait_until(lambda: ProcFs().stat(int(child.words[0])).letter == "Z")
        (process,) = look_at(watcher, child.pid)
    assert process.workers.count == WORKERS - 1


def test_workers_that_start_later_are_found():
    code = "import os, signal; signal.signal(signal.SIGUSR1, lambda *_: os.fork()); print('ready', flush=True)\n"
    code += "while True: signal.pause()"
    now = [0.0]
    with running(code) as child:
        watcher = source(clock=lambda: now[0])
        (process,) = look_at(watcher, child.pid)
        assert process.workers is None
        os.kill(child.pid, signal.SIGUSR1)

        def has_worker():
            now[0] += 3.0
            return look_at(watcher, child.pid)[0].workers

        wait_until(has_worker)


def test_rollups_are_read_rarely_and_within_the_budget():
    now = [0.0]
    read = []

    class Counting(ProcFs):
        def rollup(self, pid):
            read.append(pid)
            now[0] += 0.1
            return super().rollup(pid)

    proc = Counting()
    rollups = Rollups(proc, interval_s=10.0, share=0.01, budget_s=0.15, clock=lambda: now[0])
    with running(FAMILY) as child:
        stats = [proc.stat(int(pid)) for pid in child.words]
        rollups.refresh(stats)
        assert len(read) == 2
        rollups.refresh(stats)
        assert sorted(read) == sorted(stat.pid for stat in stats)
        rollups.refresh(stats)
        assert len(read) == WORKERS
        now[0] += 9.0
        rollups.refresh(stats)
        assert len(read) == WORKERS
        now[0] += 2.0
        rollups.refresh(stats)
        assert len(read) > WORKERS
        assert all(isinstance(rollups.of(stat), Rollup) for stat in stats)


def test_a_slow_rollup_is_read_less_often():
    now = [0.0]
    read = []

    class Slow(ProcFs):
        def rollup(self, pid):
            read.append(pid)
            now[0] += 1.0
            return super().rollup(pid)

    rollups = Rollups(Slow(), interval_s=10.0, share=0.01, clock=lambda: now[0])
    stat = ProcFs().stat(os.getpid())
    rollups.refresh([stat])
    now[0] += 90.0
    rollups.refresh([stat])
    assert len(read) == 1
    now[0] += 11.0
    rollups.refresh([stat])
    assert len(read) == 2


def test_ranks_belong_to_the_launcher_that_started_them():
    # A replacement named torchrun, with a shell between it and its ranks.
    launcher = (
        "import os, subprocess, sys\n"
        f"idle = {IDLE!r}\n"
        "ranks = [subprocess.Popen(['sh', '-c', 'echo $$; exec \"$@\"', 'sh', sys.executable, '-c', idle],\n"
        "    env={**os.environ, 'RANK': str(rank + 4), 'WORLD_SIZE': '8', 'LOCAL_RANK': str(rank)},\n"
        "    stdout=subprocess.PIPE, text=True) for rank in range(2)]\n"
        "pids = [rank.stdout.readline().strip() for rank in ranks]\n"
        "assert all(rank.stdout.readline() == 'ready\\n' for rank in ranks)\n"
        "print('ready', *pids, flush=True)\n"
        "ranks[0].wait()\n"
    )
    with running(launcher, "torchrun", "train.py") as child:
        pids = [int(pid) for pid in child.words]
        ranks = [process.rank for process in look_at(source(), *pids)]
    assert ranks == [Rank(4, 8, 0, child.pid), Rank(5, 8, 1, child.pid)]


def test_ranks_without_a_known_launcher_are_grouped_by_their_parent():
    with running(IDLE, RANK="0", WORLD_SIZE="2") as one, running(IDLE, RANK="1", WORLD_SIZE="2") as two:
        ranks = [process.rank for process in look_at(source(), one.pid, two.pid)]
    assert ranks == [Rank(0, 2, None, os.getpid()), Rank(1, 2, None, os.getpid())]


def test_a_child_that_inherits_rank_variables_is_not_a_rank():
    with running(FAMILY, RANK="3", WORLD_SIZE="8") as child:
        parent, worker = look_at(source(), child.pid, int(child.words[0]))
    assert parent.rank == Rank(3, 8, None, None)
    assert worker.rank is None


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}, JobPlace(3, 8, 1)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, JobPlace(0, 1, None)),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}, JobPlace(2, 4, None)),
        ({"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "16", "SLURM_LOCALID": "1"}, JobPlace(5, 16, 1)),
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, None),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, None),
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "RANK": "7", "WORLD_SIZE": "16"}, JobPlace(7, 16, None)),
        ({"RANK": "8", "WORLD_SIZE": "8"}, None),
        ({"RANK": "first", "WORLD_SIZE": "8"}, None),
        ({"RANK": "0"}, None),
        ({}, None),
    ],
    ids=[
        "torchrun", "a world of one", "Open MPI", "SLURM", "a SLURM step of one task",
        "a batch script that starts one process",
        "torchrun inside SLURM", "a rank outside its world", "not a number", "no world size", "no variables",
    ],
)  # fmt: skip
def test_the_rank_is_read_from_the_environment(environment, expected):
    assert place_in_job(environment) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("torchrun --nproc-per-node 8 train.py", True),
        ("/opt/conda/bin/python /opt/conda/bin/torchrun train.py", True),
        ("python -u -m torch.distributed.run train.py", True),
        ("python -m accelerate.commands.launch train.py", True),
        ("slurmstepd: [48213.0]", True),
        ("srun python train.py", True),
        ("python train.py --launcher torchrun", False),
        ("bash", False),
        ("", False),
    ],
)
def test_launchers_are_recognised_by_their_command(command, expected):
    assert is_launcher(tuple(command.split())) is expected
