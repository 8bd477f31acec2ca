"""The machine around the devices, as psutil reads it; psutil is imported at the first look."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gputui.model.host import Host, HostMemory, Space
from gputui.model.reading import Absent, Reading
from gputui.sources.procfs import SECOND_LOOK

if TYPE_CHECKING:
    from psutil._ntuples import sdiskio, sdiskusage, snetio, sswap, svmem

T = TypeVar("T")

_STACKED_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd")
"""Block devices that live in memory or on other block devices: their bytes would be counted twice."""


class _Traffic(NamedTuple):
    """Bytes since boot: incoming is read or received, outgoing is written or sent."""

    incoming: int
    outgoing: int


class HostSource:
    """Reads the host, always in one thread: psutil keeps the CPU times of the last look for each thread."""

    def __init__(self, sys: Path = Path("/sys"), clock: Callable[[], float] = time.monotonic) -> None:
        self._sys, self._clock = sys, clock
        self._core_count: int | None = 0
        self._disks, self._links = _Meter(), _Meter()
        self._is_hardware: dict[str, bool] = {}
        # psutil warns where /proc lacks a field, and a warning would go to the terminal that the screen is drawn on.
        warnings.filterwarnings("ignore", category=RuntimeWarning, module="psutil")

    def read(self) -> Host:
        """One look; what psutil cannot read is absent with the reason."""
        import psutil

        now = self._clock()
        cpu, cores = self._percents(
            _try(lambda: (psutil.cpu_percent(), tuple(psutil.cpu_percent(percpu=True)))), psutil.cpu_count()
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
            # psutil has the moment of the boot alone, in whole seconds; this clock runs since then.
            uptime_s=time.clock_gettime(time.CLOCK_BOOTTIME),
        )

    def _percents(
        self, percents: Reading[tuple[float, tuple[float, ...]]], core_count: int | None
    ) -> tuple[Reading[float], Reading[tuple[float, ...]]]:
        """The first look has nothing before it, and psutil takes cores for others when one comes or goes."""
        if isinstance(percents, Absent):
            return percents, percents
        before, self._core_count = self._core_count, core_count
        return percents if core_count == before else (SECOND_LOOK, SECOND_LOOK)

    def _whole_disks(self, disks: Mapping[str, sdiskio]) -> dict[str, _Traffic]:
        """Neither partitions, which /sys/block lacks, nor what is stacked on disks; a name with / has ! in /sys."""
        return {
            name: _Traffic(disk.read_bytes, disk.write_bytes)
            for name, disk in disks.items()
            if not name.startswith(_STACKED_DISKS) and self._exists(f"block/{name.replace('/', '!')}")
        }

    def _cards(self, counters: Mapping[str, snetio]) -> dict[str, _Traffic]:
        """Bridges, bonds and VLANs carry the traffic of cards once more; a container has nothing but such."""
        links = {name: _Traffic(link.bytes_recv, link.bytes_sent) for name, link in counters.items() if name != "lo"}
        return {name: link for name, link in links.items() if self._exists(f"class/net/{name}/device")} or links

    def _exists(self, entry: str) -> bool:
        """Whether /sys has the entry; asked once for each."""
        if entry not in self._is_hardware:
            self._is_hardware[entry] = (self._sys / entry).exists()
        return self._is_hardware[entry]


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


def _try(read: Callable[[], T]) -> Reading[T]:
    """What `read` gives, or why not: a file that cannot be read, is not there, or has a form psutil does not know."""
    try:
        return read()
    except OSError as error:
        return Absent(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except (NotImplementedError, ValueError, LookupError) as error:
        return Absent(f"psutil: {error}")


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
