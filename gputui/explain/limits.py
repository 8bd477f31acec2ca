"""Sentences about what cannot be known of a look, and what is out of the ordinary."""

from __future__ import annotations

from gputui.explain.owners import foreign_bytes
from gputui.model.allocator import AllocatorMap, AllocatorSettings, AllocatorStatistics
from gputui.model.target import Greeting, Look
from gputui.model.verdict import Composition
from gputui.units import format_bytes

NATIVE = "native"

BACKENDS = {
    "cudaMallocAsync": (
        "The allocator is cudaMallocAsync, which has no map of segments and blocks: what empty_cache() would give back"
        " cannot be told (at most what is reserved and not allocated), nor what holds the rest."
    ),
    "pluggable": (
        "The program has put an allocator of its own in PyTorch's place, which keeps no statistics and no map: only"
        " its tensors can be told."
    ),
}
OTHER_BACKEND = "The allocator is {}, which gputui does not know: there is no map of segments and blocks."


def sentences(greeting: Greeting, look: Look) -> list[str]:
    """All that a reader must know before the numbers, without repetition."""
    found = [_before_cuda(greeting), _backend(look.settings), *look.problems]
    if look.map is not None:
        found += [*look.map.problems, *_map_limits(look.map)]
    if look.inventory is not None:
        found += look.inventory.problems
        if not look.inventory.is_of_one_moment:
            found.append("The tensors and the allocator's map are not of one moment, so some owners may be wrong.")
    return list(dict.fromkeys(sentence for sentence in found if sentence))


def disagreement(statistics: AllocatorStatistics, parts: Composition) -> str:
    """A sentence where map and counters are not of one moment, else ""."""
    live = parts.requested_bytes + parts.rounding_bytes
    if (parts.reserved_bytes, live) == (statistics.reserved_bytes, statistics.allocated_bytes):
        return ""
    return f"Device {statistics.device} was allocating during the look: its map and its counters differ."


def foreign(look: Look, device: int) -> str:
    """A sentence about tensors in memory that PyTorch did not allocate, else ""."""
    if look.map is None or look.inventory is None or not look.inventory.is_of_one_moment:
        return ""
    count = foreign_bytes(look.map, look.inventory, device)
    where = f"device {device} lie outside what PyTorch allocated (shared by another process or library)"
    return f"Tensors of {format_bytes(count)} on {where}." if count else ""


def _before_cuda(greeting: Greeting) -> str:
    if not greeting.torch:
        return "The process has not imported PyTorch."
    return (
        "" if greeting.is_cuda_initialized else "The process has not initialised CUDA: there is no GPU memory to show."
    )


def _backend(settings: AllocatorSettings | None) -> str:
    if settings is None or settings.backend == NATIVE:
        return ""
    return BACKENDS.get(settings.backend, OTHER_BACKEND.format(settings.backend))


def _map_limits(layout: AllocatorMap) -> list[str]:
    found = [
        f"On device {device} a graph is being captured or allocations go to a memory pool: until that ends,"
        " empty_cache() releases nothing from the default pools there."
        for device in layout.routed_devices
    ]
    if dict(layout.settings.values).get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
        found.append("PYTORCH_NO_CUDA_MEMORY_CACHING is set: PyTorch caches nothing, and no blocks are to be seen.")
    page = layout.settings.large_page_bytes
    if any(s.is_expandable and not s.is_small and s.size_bytes % page for s in layout.segments):
        found.append(
            "The pages of expandable segments are not as large as the settings say (large_segment_size_mb was changed"
            " at run time): what is releasable in them is not exact."
        )
    return found
