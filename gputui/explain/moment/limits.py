"""Problems of a look: what the look cannot know, and what is unusual about the allocator."""

from __future__ import annotations

from gputui.explain.owners.owners import foreign_bytes
from gputui.model.attached.allocator import AllocatorMap, AllocatorSettings, AllocatorStatistics
from gputui.model.attached.analysis import Composition
from gputui.model.attached.target import Greeting, Look
from gputui.model.reading import Problem
from gputui.units import format_bytes

NATIVE = "native"

BACKENDS = {
    "cudaMallocAsync": (
        "The allocator is cudaMallocAsync, which has no map of segments and blocks: gputui cannot tell what"
        " empty_cache() would return (at most what is reserved and not allocated), nor what holds the rest."
    ),
    "pluggable": (
        "The program has replaced PyTorch's allocator by its own, which has no statistics and no map: only the tensors"
        " are known."
    ),
}
OTHER_BACKEND = "The allocator is {}, which gputui does not know: there is no map of segments and blocks."
NOT_OF_ONE_MOMENT = "The tensors and the allocator's map were not read at the same moment, so some owners may be wrong."


def look_problems(greeting: Greeting, look: Look) -> list[Problem]:
    """What a reader of a look's numbers must know first, each problem once."""
    problems = [*_before_cuda(greeting), *_backend(look.settings), *look.problems]
    if look.map is not None:
        problems += [*look.map.problems, *_map_limits(look.map)]
    if look.inventory is not None:
        problems += look.inventory.problems
        if not look.inventory.is_of_one_moment:
            problems.append(Problem(NOT_OF_ONE_MOMENT))
    return list(dict.fromkeys(problems))


def disagreement(statistics: AllocatorStatistics, parts: Composition) -> list[Problem]:
    """A problem if the map and the counters of a look do not agree, so that they are not of one moment."""
    live = parts.requested_bytes + parts.rounding_bytes
    if (parts.reserved_bytes, live) == (statistics.reserved_bytes, statistics.allocated_bytes):
        return []
    text = f"The program allocated on device {statistics.device} during the look: its map and its counters differ."
    return [Problem(text)]


def foreign(look: Look, device: int) -> list[Problem]:
    """A problem if tensors lie in memory that this process's PyTorch did not allocate."""
    if look.map is None or look.inventory is None or not look.inventory.is_of_one_moment:
        return []
    count = foreign_bytes(look.map, look.inventory, device)
    where = f"device {device} lie outside PyTorch's allocator (shared by another process or library)"
    return [Problem(f"Tensors of {format_bytes(count)} on {where}.")] if count else []


def _before_cuda(greeting: Greeting) -> list[Problem]:
    if greeting.is_cuda_initialized:
        return []
    if not greeting.torch:
        return [Problem("The process has not imported PyTorch.")]
    return [Problem("The process has not initialised CUDA: there is no GPU memory to show.")]


def _backend(settings: AllocatorSettings | None) -> list[Problem]:
    if settings is None or settings.backend == NATIVE:
        return []
    return [Problem(BACKENDS.get(settings.backend, OTHER_BACKEND.format(settings.backend)))]


def _map_limits(layout: AllocatorMap) -> list[Problem]:
    texts = [
        f"On device {device} a CUDA graph is being captured, or allocations go to a memory pool: until that ends,"
        " empty_cache() releases nothing from the default pools there."
        for device in layout.routed_devices
    ]
    if dict(layout.settings.values).get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
        texts.append("PYTORCH_NO_CUDA_MEMORY_CACHING is set: PyTorch caches nothing, and its blocks cannot be seen.")
    page = layout.settings.large_page_bytes
    if any(s.is_expandable and not s.is_small and s.size_bytes % page for s in layout.segments):
        texts.append(
            "The pages of expandable segments are not as large as the settings say (large_segment_size_mb was changed"
            " at run time): the releasable bytes in them are not exact."
        )
    return [Problem(text) for text in texts]
