"""The machine around the devices, from /proc."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from gputui.model.host import Host, HostMemory, Space
from gputui.model.reading import Absent, Reading
from gputui.sources.procfs import SECOND_LOOK, TICKS_PER_S, fields_of, kib, read_file

T = TypeVar("T")

_STACKED_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd")
"""Block devices that live in memory or on other block devices: their bytes would be counted twice."""

_SECTOR_BYTES = 512
"""The unit of /proc/diskstats, whatever the disk's own sectors are."""

_SHM = "/dev/shm"


class _Traffic(NamedTuple):
    """Bytes since boot: incoming is read or received, outgoing is written or sent."""

    incoming: int
    outgoing: int


class _CpuTime(NamedTuple):
    """Clock ticks since boot; time that a guest took is in `busy`, waiting for a disk is not."""

    busy: int
    total: int


class HostSource:
    """Reads the host; percentages and rates are of the time since the last look."""

    def __init__(
        self,
        proc: str = "/proc",
        sys: str = "/sys",
        clock: Callable[[], float] = time.monotonic,
        *,
        counts_itself: bool = True,
    ) -> None:
        """Without `counts_itself` the processor time of this program is left out of what all cores did together."""
        self._proc, self._sys, self._clock = proc, sys, clock
        self._cpu = _CpuMeter(own_s=None if counts_itself else time.process_time)
        self._disks, self._links = _Meter(), _Meter()
        self._is_hardware: dict[str, bool] = {}

    def read(self) -> Host:
        """One look; what cannot be read is absent with the reason."""
        now = self._clock()
        cpu, cores = self._cpu.percents(self._try("stat", _cpu_times))
        disk_read, disk_write = self._disks.rates(now, self._try("diskstats", self._whole_disks))
        received, sent = self._links.rates(now, self._try("net/dev", self._cards))
        memory = self._try("meminfo", fields_of)
        return Host(
            hostname=os.uname().nodename,
            cpu_percent=cpu,
            core_percents=cores,
            load=_system(os.getloadavg),
            memory=self._part("meminfo", memory, _memory),
            swap=self._part("meminfo", memory, _swap),
            shm=_system(_shm),
            disk_read_bytes_per_s=disk_read,
            disk_write_bytes_per_s=disk_write,
            network_receive_bytes_per_s=received,
            network_send_bytes_per_s=sent,
            uptime_s=time.clock_gettime(time.CLOCK_BOOTTIME),
        )

    def _try(self, name: str, convert: Callable[[bytes], T]) -> Reading[T]:
        """What /proc/`name` says, or why not."""
        path = f"{self._proc}/{name}"
        try:
            data = read_file(path)
        except OSError as error:
            return Absent(f"{path}: {error.strerror}")
        return self._part(name, data, convert)

    def _part(self, name: str, reading: Reading[bytes | dict[str, str]], convert: Callable[..., T]) -> Reading[T]:
        """What `convert` makes of it; a form that nobody here knows is a reason."""
        if isinstance(reading, Absent):
            return reading
        try:
            return convert(reading)
        except (ValueError, LookupError) as error:
            return Absent(f"{self._proc}/{name} is not understood: {error}")

    def _whole_disks(self, data: bytes) -> dict[str, _Traffic]:
        """Neither partitions, which /sys/block lacks, nor what is stacked on disks; a name with / has ! in /sys."""
        disks = {}
        for line in data.decode().splitlines():
            fields = line.split()
            name = fields[2]
            if not name.startswith(_STACKED_DISKS) and self._exists(f"block/{name.replace('/', '!')}"):
                disks[name] = _Traffic(int(fields[5]) * _SECTOR_BYTES, int(fields[9]) * _SECTOR_BYTES)
        return disks

    def _cards(self, data: bytes) -> dict[str, _Traffic]:
        """Bridges, bonds and VLANs carry the traffic of cards once more; a container has nothing but such."""
        links = {name: link for name, link in _links(data) if name != "lo"}
        return {name: link for name, link in links.items() if self._exists(f"class/net/{name}/device")} or links

    def _exists(self, entry: str) -> bool:
        """Whether /sys has the entry; asked once for each."""
        if entry not in self._is_hardware:
            self._is_hardware[entry] = os.path.exists(f"{self._sys}/{entry}")
        return self._is_hardware[entry]


class _CpuMeter:
    """Turns processor times into percentages since the last look."""

    def __init__(self, own_s: Callable[[], float] | None) -> None:
        self._own_s = own_s
        self._own_before_s = 0.0
        self._before: Mapping[str, _CpuTime] = {}

    def percents(self, times: Reading[dict[str, _CpuTime]]) -> tuple[Reading[float], Reading[tuple[float, ...]]]:
        """All cores together and each; absent at the first look, and when a core came or went."""
        if isinstance(times, Absent):
            return times, times
        before, self._before = self._before, times
        own_ticks = self._own_ticks()
        if before.keys() != times.keys():
            return SECOND_LOOK, SECOND_LOOK
        together, *cores = (
            _CpuTime(*(new - old for new, old in zip(times[name], before[name], strict=True))) for name in times
        )
        return _percent(together.busy - own_ticks, together.total), tuple(_percent(*core) for core in cores)

    def _own_ticks(self) -> float:
        if self._own_s is None:
            return 0.0
        before_s, self._own_before_s = self._own_before_s, self._own_s()
        return (self._own_before_s - before_s) * TICKS_PER_S


class _Meter:
    """Turns counters into rates since the last look that gave any."""

    def __init__(self) -> None:
        self._time_s = 0.0
        self._counters: Mapping[str, _Traffic] | None = None

    def rates(self, now_s: float, counters: Reading[dict[str, _Traffic]]) -> tuple[Reading[float], Reading[float]]:
        """Bytes a second in and out over what was there at both looks: a disk that comes or goes is no traffic."""
        if isinstance(counters, Absent):
            return counters, counters
        seconds, self._time_s = now_s - self._time_s, now_s
        before, self._counters = self._counters, counters
        if before is None or seconds <= 0:
            return SECOND_LOOK, SECOND_LOOK
        both = [(counters[name], before[name]) for name in counters.keys() & before.keys()]
        return (
            sum(max(0, new.incoming - old.incoming) for new, old in both) / seconds,
            sum(max(0, new.outgoing - old.outgoing) for new, old in both) / seconds,
        )


def _cpu_times(data: bytes) -> dict[str, _CpuTime]:
    """All cores together ("cpu") and each ("cpu0"), in that order; guests' time is in that of users already."""
    times = {}
    for line in data.decode().splitlines():
        if not line.startswith("cpu"):
            break  # they come first, and a line of all interrupts, which is long, comes behind them
        name, *ticks = line.split(None, 9)
        user, nice, system, idle, waiting, *rest = map(int, ticks[:8])
        busy = user + nice + system + sum(rest)
        times[name] = _CpuTime(busy, busy + idle + waiting)
    return times


def _percent(busy: float, total: float) -> float:
    return round(min(100.0, max(0.0, 100 * busy / total)), 1) if total > 0 else 0.0


def _links(data: bytes) -> Iterator[tuple[str, _Traffic]]:
    for line in data.decode().splitlines()[2:]:  # two lines of titles
        name, _, numbers = line.rpartition(":")
        fields = numbers.split()
        yield name.strip(), _Traffic(int(fields[0]), int(fields[8]))


def _memory(fields: Mapping[str, str]) -> HostMemory:
    total, available, shared = (kib(fields[name]) for name in ("MemTotal", "MemAvailable", "Shmem"))
    cached = sum(kib(fields.get(name, "0")) for name in ("Cached", "SReclaimable", "Buffers"))
    return HostMemory(
        total_bytes=total,
        used_bytes=total - available,
        available_bytes=available,
        cache_bytes=max(0, cached - shared),  # the kernel counts shared memory as cache; here it is counted once
        shared_bytes=shared,
    )


def _swap(fields: Mapping[str, str]) -> Space:
    total = kib(fields["SwapTotal"])
    return Space(total_bytes=total, used_bytes=total - kib(fields["SwapFree"]))


def _shm() -> Space:
    shm = os.statvfs(_SHM)
    return Space(total_bytes=shm.f_blocks * shm.f_frsize, used_bytes=(shm.f_blocks - shm.f_bfree) * shm.f_frsize)


def _system(read: Callable[[], T]) -> Reading[T]:
    try:
        return read()
    except OSError as error:
        return Absent(f"{error.filename}: {error.strerror}" if error.filename else str(error))
