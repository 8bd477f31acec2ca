"""The demonstration's processes, and the details of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gputui.model.machine.device import DeviceLook
from gputui.model.machine.owner import Owner
from gputui.model.machine.process import (
    Identity,
    Process,
    ProcessDetails,
    ProcessLook,
    ProcessState,
    TreeEntry,
    Workers,
)
from gputui.model.reading import Absent, Reading
from gputui.sources.demo.scenario import DOCKER, JUPYTER, NOTHING, RELATIVES, SHELL, TORCHRUN, Job
from gputui.sources.processes.details import without_process
from gputui.sources.processes.unattributed import unattributed
from gputui.sources.procfs import ENDED
from gputui.units import GIB, MIB

_BOOTED_BEFORE_S = 31 * 86400.0
_WORKER_CPU_PERCENT = 61.0


_OWNERS = {
    TORCHRUN: Owner(job="48213", step="batch", environment="torch"),
    SHELL: Owner(environment="torch", session="tmux $2"),
    DOCKER: Owner(container="b4c0f2d19e7a" + "5d3e6f" * 8 + "5d3e", runtime="docker"),
    JUPYTER: Owner(unit="jupyter-carla.service", environment="lab"),
}
"""The owner of processes, by the PID of their parent."""


def look(begin: float, time_s: float, jobs: Sequence[Job], devices: DeviceLook) -> ProcessLook:
    """One process for each job; the simulation began at `begin` (epoch seconds)."""
    rows = tuple(_row(begin, time_s, job, devices) for job in jobs)
    return ProcessLook(processes=rows, unattributed=unattributed(devices, rows, is_private=False))


def identity_of(begin: float, job: Job) -> Identity:
    """The job's identity, which does not change while it runs."""
    return Identity(job.pid, round(begin - job.age_s, 2))


def _state(job: Job) -> ProcessState:
    if job.is_zombie:
        return ProcessState.ZOMBIE
    return ProcessState.RUNNING if job.waiting_for == NOTHING else ProcessState.SLEEPING


def _row(begin: float, time_s: float, job: Job, devices: DeviceLook) -> Process:
    rss_bytes = int(job.rss_gib * GIB)
    return Process(
        identity=identity_of(begin, job),
        state=_state(job),
        uses=tuple(use for use in devices.uses if use.pid == job.pid),
        parent_pid=job.parent_pid,
        user=job.user,
        command=job.command,
        cpu_percent=round(job.cpu_percent(time_s), 1),
        rss_bytes=rss_bytes,
        pss_bytes=int(rss_bytes * 0.93),
        workers=_workers(time_s, job) if job.workers else None,
        rank=job.rank,
        has_probe=job.has_probe,
        owner=_OWNERS.get(job.parent_pid, Owner()),
    )


def _workers(time_s: float, job: Job) -> Workers:
    """Workers load the next batch while the device computes, so they are as busy as it is."""
    return Workers(
        count=job.workers,
        cpu_percent=round(job.workers * _WORKER_CPU_PERCENT * job.load(time_s), 1),
        resident_bytes=int(job.workers * job.worker_gib * GIB),
        is_proportional=True,
    )


def details(begin: float, time_s: float, jobs: Sequence[Job], identity: Identity) -> ProcessDetails:
    """Everything about one process of the demonstration."""
    job = next((job for job in jobs if identity_of(begin, job) == identity), None)
    if job is None:
        return without_process(identity, ENDED)
    rss_bytes = int(job.rss_gib * GIB)
    read_bytes_per_s = 42.0 * MIB * job.load(time_s) * (1 + job.workers)
    return ProcessDetails(
        identity=identity,
        tree=tuple(_tree(begin, time_s, job)),
        environment=_GONE_WITH_IT if job.is_zombie else tuple(_environment(job).items()),
        working_directory=_GONE_WITH_IT if job.is_zombie else f"/home/{job.user}/work",
        executable=_GONE_WITH_IT if job.is_zombie else f"/home/{job.user}/miniforge3/envs/torch/bin/python3.12",
        command_line=tuple(job.command.split()),
        waiting_for=job.waiting_for,
        threads=job.threads,
        open_files=_GONE_WITH_IT if job.is_zombie else 60 + 12 * job.workers,
        pss_bytes=int(rss_bytes * 0.93),
        shared_bytes=int(rss_bytes * 0.11),
        swap_bytes=0,
        read_bytes_per_s=read_bytes_per_s,
        write_bytes_per_s=180.0 * MIB if job.rank and job.rank.rank == 0 and job.load(time_s) < 0.5 else 0.0,
    )


_GONE_WITH_IT = Absent("the process has ended: a zombie has none")


def _environment(job: Job) -> Mapping[str, str]:
    environment = {
        "USER": job.user,
        "HOME": f"/home/{job.user}",
        "PATH": f"/home/{job.user}/miniforge3/envs/torch/bin:/usr/local/bin:/usr/bin:/bin",
        "CUDA_VISIBLE_DEVICES": job.device.removeprefix("GPU-"),
        "HOSTNAME": "demo",
    }
    if job.rank is None:
        return environment
    return environment | {
        "CUDA_VISIBLE_DEVICES": "0,1,2,3",
        "SLURM_JOB_ID": "48213",
        "OMP_NUM_THREADS": "8",
        "NCCL_DEBUG": "WARN",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "LOCAL_RANK": str(job.rank.local_rank),
        "RANK": str(job.rank.rank),
        "LOCAL_WORLD_SIZE": str(job.rank.world_size),
        "WORLD_SIZE": str(job.rank.world_size),
        "MASTER_ADDR": "demo",
        "MASTER_PORT": "29500",
        "TORCHELASTIC_RUN_ID": "none",
    }


def _tree(begin: float, time_s: float, job: Job) -> Iterator[TreeEntry]:
    above = list(_ancestors(job.parent_pid))
    for depth, pid in enumerate(reversed(above)):
        relative = RELATIVES[pid]
        yield _entry(
            Identity(pid, begin - _BOOTED_BEFORE_S), depth, relative.command, relative.rss_gib, relative.threads
        )
    cpu: Reading[float] = round(job.cpu_percent(time_s), 1)
    yield TreeEntry(
        identity_of(begin, job), len(above), _state(job), job.command, cpu, int(job.rss_gib * GIB), job.threads
    )
    for worker in range(1, job.workers + 1):
        percent = round(_WORKER_CPU_PERCENT * job.load(time_s), 1)
        identity = Identity(job.pid + worker, round(begin - job.age_s + 40 + worker / 10, 2))
        yield _entry(identity, len(above) + 1, job.command, job.worker_gib + 1.1, 3, percent)


def _ancestors(pid: int) -> Iterator[int]:
    while pid:
        yield pid
        pid = RELATIVES[pid].parent_pid


def _entry(
    identity: Identity, depth: int, command: str, rss_gib: float, threads: int, cpu_percent: float = 0.0
) -> TreeEntry:
    return TreeEntry(
        identity, depth, ProcessState.SLEEPING, command, cpu_percent, rss_bytes=int(rss_gib * GIB), threads=threads
    )
