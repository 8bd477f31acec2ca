"""The machine around the devices."""

from __future__ import annotations

from typing import NamedTuple

from gputui.model.reading import NOT_READ, Reading


class HostMemory(NamedTuple):
    """Host memory; `used_bytes` is total - available, `shared_bytes` tmpfs and shared memory, `cache_bytes` the page
    cache and buffers."""

    total_bytes: int
    used_bytes: int
    available_bytes: int
    cache_bytes: int
    shared_bytes: int


class Space(NamedTuple):
    """Used and total bytes of swap or /dev/shm."""

    total_bytes: int
    used_bytes: int


class Host(NamedTuple):
    """CPU use in percent, of all cores together and of each; rates are since the last look, absent at the first one.

    `memory_limit` (with what counts against it) and `processor_limit` (processors) are those of gputui's own control
    groups, None without a limit: they end or slow down a container long before the host is full.
    """

    hostname: str = ""
    cpu_percent: Reading[float] = NOT_READ
    core_percents: Reading[tuple[float, ...]] = NOT_READ
    load: Reading[tuple[float, float, float]] = NOT_READ
    memory: Reading[HostMemory] = NOT_READ
    swap: Reading[Space] = NOT_READ
    shm: Reading[Space] = NOT_READ
    disk_read_bytes_per_s: Reading[float] = NOT_READ
    disk_write_bytes_per_s: Reading[float] = NOT_READ
    network_receive_bytes_per_s: Reading[float] = NOT_READ
    network_send_bytes_per_s: Reading[float] = NOT_READ
    uptime_s: Reading[float] = NOT_READ
    memory_limit: Space | None = None
    processor_limit: float | None = None
