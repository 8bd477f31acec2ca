"""Metrics of processes on devices. Only the info has texts as labels, such as the job: join it by `instance, pid`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gputui.export.families import Family, Kind, Labels, Sample, present
from gputui.model.machine.device import DeviceLook
from gputui.model.machine.owner import Owner
from gputui.model.machine.process import Process, ProcessLook
from gputui.model.machine.programs import program_of
from gputui.model.reading import value_of

USED = Family("process_memory_used_bytes", "Memory that a process holds on a device, as the driver counts it.")
BUSY = Family("process_busy_ratio", "Share of the time in which a kernel of the process ran.")
STARTED = Family("process_start_time_seconds", "When a process started: it tells a process from a later one.")
INFO = Family("process", "Whose a process on a GPU is, as far as it is known.", Kind.INFO)
FAMILIES = (USED, BUSY, STARTED, INFO)

PROGRAM_LENGTH = 60


def use_samples(look: DeviceLook, labels: Mapping[str, Labels]) -> Iterator[Sample]:
    """What the driver says of each process. Those without a PID, in other containers, are left out here."""
    for use in look.uses:
        if use.pid:
            of = {**labels.get(use.device, {}), "pid": str(use.pid)}
            used_bytes, percent = value_of(use.used_bytes), value_of(use.sm_percent)
            if used_bytes is not None:
                yield Sample(USED, of, used_bytes)
            if percent is not None:
                yield Sample(BUSY, of, percent / 100)


def process_samples(look: ProcessLook) -> Iterator[Sample]:
    """What the host says of each process."""
    for process in look.processes:
        if process.pid:
            if process.identity.started is not None:
                yield Sample(STARTED, present(pid=process.pid), process.identity.started)
            yield Sample(INFO, info_labels(process))


def info_labels(process: Process) -> dict[str, str]:
    """The labels of a process's info, without those that are not known."""
    owner, rank = value_of(process.owner) or Owner(), process.rank
    return present(
        pid=process.pid,
        user=value_of(process.user),
        program=_name(value_of(process.command) or ""),
        slurm_job_id=owner.job,
        slurm_step_id=owner.step,
        namespace=owner.namespace,
        pod=owner.pod,
        container=owner.container if owner.container and len(owner.container) != 64 else None,
        container_id=owner.container if owner.container and len(owner.container) == 64 else None,
        unit=owner.unit,
        ray_job_id=owner.ray_job,
        rank=rank.rank if rank else None,
        local_rank=rank.local_rank if rank else None,
        world_size=rank.world_size if rank else None,
        rendezvous=rank.rendezvous if rank and rank.rendezvous and rank.world_size > 1 else None,
    )


def _name(command: str) -> str:
    """The program alone: its arguments would make a new series for each run."""
    return program_of(command).split(" ", 1)[0][:PROGRAM_LENGTH]
