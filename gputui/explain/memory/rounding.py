"""PyTorch's rounding rules: from a request to the size of its block, and of the segment if a new one is needed."""

from __future__ import annotations

from gputui.model.attached.allocator import AllocatorSettings
from gputui.units import MIB

QUANTUM_BYTES = 512
SMALL_REQUEST_BYTES = MIB
SMALL_SEGMENT_BYTES = 2 * MIB
LARGE_REQUEST_BYTES = 10 * MIB  # from here on a segment is as large as the request, in steps of 2 MiB
SEGMENT_STEP_BYTES = 2 * MIB


def rounded_bytes(settings: AllocatorSettings, requested_bytes: int) -> int:
    """The size of a request's block: a multiple of 512, or with `roundup_divisions` of a part of a power of two."""
    step = _step(settings, requested_bytes)
    return max(1, -(-requested_bytes // step)) * step


def largest_within(settings: AllocatorSettings, size_bytes: int) -> int:
    """The largest request whose rounded size is at most `size_bytes`."""
    step = _step(settings, size_bytes)
    return size_bytes // step * step


def segment_bytes(settings: AllocatorSettings, requested_bytes: int) -> int:
    """How much PyTorch asks the driver for where no free block fits; its out-of-memory error names this size."""
    size = rounded_bytes(settings, requested_bytes)
    if size <= SMALL_REQUEST_BYTES:
        return SMALL_SEGMENT_BYTES
    if size < LARGE_REQUEST_BYTES:
        return settings.large_page_bytes
    return -(-size // SEGMENT_STEP_BYTES) * SEGMENT_STEP_BYTES


def largest_segment(free_bytes: int) -> int:
    """The largest rounded size whose native segment fits into `free_bytes` of free device memory."""
    if free_bytes >= LARGE_REQUEST_BYTES:
        return free_bytes // SEGMENT_STEP_BYTES * SEGMENT_STEP_BYTES
    return SMALL_REQUEST_BYTES if free_bytes >= SMALL_SEGMENT_BYTES else 0


def _step(settings: AllocatorSettings, size_bytes: int) -> int:
    index = min(15, max(0, size_bytes.bit_length() - 1 - 20))
    divisions = settings.roundup_divisions[index] if settings.roundup_divisions else 1
    if divisions <= 1 or size_bytes <= QUANTUM_BYTES * divisions:
        return QUANTUM_BYTES
    return (1 << (size_bytes.bit_length() - 1)) // divisions
