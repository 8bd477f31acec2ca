"""The host's CPU, memory, disks and network, read through psutil, which is imported at the first look."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gputui.model.machine.host import Host, HostMemory, Space
from gputui.model.reading import Absent, Reading
from gputui.sources.cgroups import CgroupLimits
from gputui.sources.procfs import SECOND_LOOK

if TYPE_CHECKING:
    from psutil._ntuples import scputimes, sdiskio, sdiskusage, snetio, sswap, svmem

T = TypeVar("T")

_STACKED_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd")
"""Prefixes of block devices that do not count: in memory, removable, or on top of others, whose bytes they repeat."""


class _Traffic(NamedTuple):
    """Bytes since boot: `incoming` were read or received, `outgoing` were written or sent."""

    incoming: int
    outgoing: int


class _CpuTime(NamedTuple):
    """Seconds since boot; `busy_s` leaves out waiting for a disk."""

    busy_s: float
    total_s: float


class HostSource:
    """Reads the host; percentages and rates are those since the last look."""

    def __init__(
        self,
        sys: str | os.PathLike[str] = "/sys",
        clock: Callable[[], float] = time.monotonic,
        *,
        counts_itself: bool = True,
    ) -> None:
        """Without `counts_itself`, `cpu_percent` leaves out the processor time of this program."""
        self._sys, self._clock = os.fspath(sys), clock
        self._cpu = _CpuMeter(own_s=None if counts_itself else time.process_time)
        self._disks, self._links = _Meter(), _Meter()
        self._limits = CgroupLimits(sys=sys, clock=clock)
        self._is_hardware: dict[str, bool] = {}
        # psutil warns where /proc lacks a field, and the warning would be written over the screen.
        warnings.filterwarnings("ignore", category=RuntimeWarning, module="psutil")

    def read(self) -> Host:
        """The host now; what psutil cannot read is absent with the reason."""
        import psutil

        now = self._clock()
        cpu, cores = self._cpu.percents(
            _try(lambda: [_cpu_time(core) for core in (psutil.cpu_times(), *psutil.cpu_times(percpu=True))])
        )
        disk_read, disk_write = self._disks.rates(
            now, _try(lambda: self._whole_disks(psutil.disk_io_counters(perdisk=True, nowrap=False)))
        )
        received, sent = self._links.rates(
            now, _try(lambda: self._cards(psutil.net_io_counters(pernic=True, nowrap=False)))
        )
        return Host(
            hostname=os.uname().nodename,
            cpu_percent=cpu,
            core_percents=cores,
            load=_try(psutil.getloadavg),
            memory=_try(lambda: _memory(psutil.virtual_memory())),
            swap=_try(lambda: _space(psutil.swap_memory())),
            shm=_try(lambda: _space(psutil.disk_usage("/dev/shm"))),
            disk_read_bytes_per_s=disk_read,
            disk_write_bytes_per_s=disk_write,
            network_receive_bytes_per_s=received,
            network_send_bytes_per_s=sent,
            # psutil has only the time of the boot, in whole seconds; this clock counts since then.
            uptime_s=time.clock_gettime(time.CLOCK_BOOTTIME),
            memory_limit=self._limits.memory(),
            processor_limit=self._limits.processors(),
        )

    def _whole_disks(self, disks: Mapping[str, sdiskio]) -> dict[str, _Traffic]:
        """Whole disks alone: partitions are not in /sys/block, which writes "/" in a name as "!"."""
        return {
            name: _Traffic(disk.read_bytes, disk.write_bytes)
            for name, disk in disks.items()
            if not name.startswith(_STACKED_DISKS) and self._exists(f"block/{name.replace('/', '!')}")
        }

    def _cards(self, counters: Mapping[str, snetio]) -> dict[str, _Traffic]:
        """The network cards, whose traffic bridges, bonds and VLANs repeat; in a container its virtual links."""
        links = {name: _Traffic(link.bytes_recv, link.bytes_sent) for name, link in counters.items() if name != "lo"}
        return {name: link for name, link in links.items() if self._exists(f"class/net/{name}/device")} or links

    def _exists(self, entry: str) -> bool:
        """Whether /sys has the entry, which is checked once."""
        if entry not in self._is_hardware:
            self._is_hardware[entry] = os.path.exists(f"{self._sys}/{entry}")
        return self._is_hardware[entry]


class _CpuMeter:
    """Computes CPU percentages since the last look; `own_s` gives processor seconds to leave out of the total."""

    def __init__(self, own_s: Callable[[], float] | None) -> None:
        self._own_s = own_s
        self._own_before_s = 0.0
        self._before: Sequence[_CpuTime] = ()

    def percents(self, times: Reading[list[_CpuTime]]) -> tuple[Reading[float], Reading[tuple[float, ...]]]:
        """All cores together, and each core; absent at the first look and when a core was added or removed."""
        if isinstance(times, Absent):
            return times, times
        before, self._before = self._before, times
        own_s = self._own_time_s()
        if len(before) != len(times):
            return SECOND_LOOK, SECOND_LOOK
        together, *cores = (
            _CpuTime(new.busy_s - old.busy_s, new.total_s - old.total_s) for new, old in zip(times, before, strict=True)
        )
        return _percent(together.busy_s - own_s, together.total_s), tuple(_percent(*core) for core in cores)

    def _own_time_s(self) -> float:
        if self._own_s is None:
            return 0.0
        before_s, self._own_before_s = self._own_before_s, self._own_s()
        return self._own_before_s - before_s


class _Meter:
    """Computes rates since the last look that had counters."""

    def __init__(self) -> None:
        self._time_s = 0.0
        self._counters: Mapping[str, _Traffic] | None = None

    def rates(self, now_s: float, counters: Reading[dict[str, _Traffic]]) -> tuple[Reading[float], Reading[float]]:
        """Bytes a second in and out, over the disks or links that were there at both looks."""
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


def _try(read: Callable[[], T]) -> Reading[T]:
    """What `read` returns, or why it failed: an unreadable or missing file, or a format that psutil does not know."""
    try:
        return read()
    except OSError as error:
        return Absent(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except (NotImplementedError, ValueError, LookupError, TypeError, AttributeError) as error:
        return Absent(f"psutil: {error}")


def _cpu_time(times: scputimes) -> _CpuTime:
    """Busy and total time; the guests' time is left out of the sum, as user time includes it."""
    total_s = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return _CpuTime(total_s - times.idle - getattr(times, "iowait", 0.0), total_s)


def _percent(busy_s: float, total_s: float) -> float:
    return round(min(100.0, max(0.0, 100 * busy_s / total_s)), 1) if total_s > 0 else 0.0


def _memory(memory: svmem) -> HostMemory:
    return HostMemory(
        total_bytes=memory.total,
        used_bytes=memory.total - memory.available,  # `memory.used` has another meaning in older versions
        available_bytes=memory.available,
        # The kernel counts shared memory as cache; here it is counted once, as shared.
        cache_bytes=max(0, memory.cached + memory.buffers - memory.shared),
        shared_bytes=memory.shared,
    )


def _space(filled: sswap | sdiskusage) -> Space:
    return Space(total_bytes=filled.total, used_bytes=filled.used)
