"""The demonstration's host: a node with 128 cores, busy with the jobs."""

from __future__ import annotations

from collections.abc import Sequence

from gputui.model.machine.host import Host, HostMemory, Space
from gputui.sources.demo.curves import noise
from gputui.sources.demo.scenario import Job
from gputui.units import GIB, MIB

HOSTNAME = "demo"
_CORES = 128
_MEMORY_BYTES = 2015 * GIB
_SYSTEM_BYTES = 61 * GIB
_UPTIME_S = 31 * 86400.0


def look(time_s: float, jobs: Sequence[Job]) -> Host:
    """The host at a moment: CPU, memory and disk follow from the jobs."""
    wander = noise("host")
    training = sum(job.load(time_s) * max(1, job.workers) for job in jobs)
    worked = sum(job.cpu_percent(time_s) + 61 * job.workers * job.load(time_s) for job in jobs)
    cores = tuple(_core_percent(core, time_s, worked) for core in range(_CORES))
    shared = int((46 + 3 * wander(time_s)) * GIB)
    used = _SYSTEM_BYTES + shared + int(sum(job.rss_gib + job.workers * job.worker_gib for job in jobs) * GIB)
    busy_cores = sum(cores) / 100
    return Host(
        hostname=HOSTNAME,
        cpu_percent=round(sum(cores) / _CORES, 1),
        core_percents=cores,
        load=(round(busy_cores * 1.05, 2), round(busy_cores * 0.2 + 20.6, 2), 24.31),
        memory=HostMemory(
            total_bytes=_MEMORY_BYTES,
            used_bytes=used,
            available_bytes=_MEMORY_BYTES - used,
            cache_bytes=1270 * GIB,
            shared_bytes=shared,
        ),
        swap=Space(total_bytes=8 * GIB, used_bytes=212 * MIB),
        shm=Space(total_bytes=1007 * GIB, used_bytes=shared),
        disk_read_bytes_per_s=round(training * 61 * MIB, 0),
        disk_write_bytes_per_s=round((8 + 5 * wander(time_s * 2)) * MIB, 0),
        network_receive_bytes_per_s=round((210 + 120 * wander(time_s + 31)) * MIB, 0),
        network_send_bytes_per_s=round((34 + 20 * wander(time_s + 57)) * MIB, 0),
        uptime_s=_UPTIME_S + time_s,
    )


def _core_percent(core: int, time_s: float, worked_percent: float) -> float:
    """The work fills the cores from the first on, with some noise."""
    share = worked_percent - 85.0 * core
    base = 88.0 if share > 85 else max(2.0, share)
    return round(max(0.0, min(100.0, base + 8 * noise(f"core {core}")(time_s))), 1)
