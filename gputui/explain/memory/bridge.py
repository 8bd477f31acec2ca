"""From what NVML says a process holds, down to what the program requested from PyTorch."""

from __future__ import annotations

from gputui.model.attached.allocator import AllocatorStatistics
from gputui.model.attached.analysis import Bridge, Composition
from gputui.model.reading import Absent, Reading
from gputui.units import GIB, format_bytes

MISSING_BYTES = GIB
"""PyTorch counts this much more than NVML only if memory was unmapped: both are read within a second."""


def bridge(
    statistics: AllocatorStatistics,
    *,
    process_used_bytes: Reading[int],
    device_used_bytes: Reading[int],
    composition: Composition | None = None,
) -> Bridge:
    """The levels of one device, each within the one before.

    `composition`, of the newest look, has the requested bytes of live blocks alone. Without it, `requested_bytes` is
    PyTorch's counter, which includes freed blocks that wait for a stream.
    """
    requested = composition.requested_bytes if composition else statistics.requested_bytes
    return Bridge(
        device=statistics.device,
        device_used_bytes=device_used_bytes,
        process_used_bytes=process_used_bytes,
        other_processes_bytes=_others(process_used_bytes, device_used_bytes),
        outside_torch_bytes=outside_torch(process_used_bytes, statistics.reserved_bytes),
        reserved_bytes=statistics.reserved_bytes,
        inactive_bytes=statistics.reserved_bytes - statistics.active_bytes,
        active_bytes=statistics.active_bytes,
        pending_bytes=statistics.active_bytes - statistics.allocated_bytes,
        allocated_bytes=statistics.allocated_bytes,
        rounding_bytes=max(0, statistics.allocated_bytes - requested),
        requested_bytes=requested,
    )


def outside_torch(process_used_bytes: Reading[int], reserved_bytes: int) -> Reading[int]:
    """What the process holds outside PyTorch's allocator: the CUDA context, libraries' handles and buffers."""
    if isinstance(process_used_bytes, Absent):
        return process_used_bytes
    if process_used_bytes < reserved_bytes:
        return Absent(
            f"NVML's figure for the process ({format_bytes(process_used_bytes)}) is below what PyTorch has reserved"
            f" ({format_bytes(reserved_bytes)}): they were read at different moments, or NVML counts differently"
        )
    return process_used_bytes - reserved_bytes


def _others(process_used_bytes: Reading[int], device_used_bytes: Reading[int]) -> Reading[int]:
    if isinstance(device_used_bytes, Absent):
        return device_used_bytes
    if isinstance(process_used_bytes, Absent):
        return process_used_bytes
    if device_used_bytes < process_used_bytes:
        return Absent("NVML's figure for the device is below that for the process: they were read at different moments")
    return device_used_bytes - process_used_bytes
