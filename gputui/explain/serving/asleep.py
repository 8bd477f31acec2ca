"""The memory that a server in sleep mode has given back to the driver; PyTorch's counters still include it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from gputui.explain.memory.bridge import MISSING_BYTES
from gputui.explain.memory.release import DEFAULT_POOL
from gputui.model.attached.allocator import Block, BlockState
from gputui.model.attached.moment import DeviceLayout, DeviceMoment
from gputui.model.attached.tensors import OF_MODULES, Category
from gputui.model.reading import value_of


@dataclass(frozen=True, slots=True)
class Asleep:
    """The `bytes` of segments whose pages are unmapped, and those of the `live` tensors in them, by category."""

    bytes: int = 0
    live: Counter[Category] = field(default_factory=Counter)


def asleep(device: DeviceMoment) -> Asleep:
    """The memory that is asleep, nothing unless NVML reports less for the process than PyTorch has reserved.

    vLLM keeps it in private pools. It is the KV cache, and also the weights if that alone does not explain the gap.
    """
    used = value_of(device.driver.process_used_bytes)
    if used is None or device.statistics.reserved_bytes - used < MISSING_BYTES:
        return Asleep()
    size_bytes, live = 0, Counter[Category]()
    of_pools = list(_segments_of_pools(device))
    for kinds in ((Category.KV_CACHE,), OF_MODULES):
        for segment_bytes, held in of_pools:
            if held and held.most_common(1)[0][0] in kinds:
                size_bytes += segment_bytes
                live += held
        if device.statistics.reserved_bytes - size_bytes <= used:
            break
    return Asleep(size_bytes, live)


def _segments_of_pools(device: DeviceMoment) -> Iterator[tuple[int, Counter[Category]]]:
    """The bytes of each segment in a private pool, and the bytes of its live blocks by category."""
    layout = device.layout
    if layout is None:
        return
    for release in layout.release.segments:
        if release.segment.pool_id != DEFAULT_POOL:
            held = Counter[Category]()
            for block in release.segment.blocks:
                if block.state is BlockState.ACTIVE_ALLOCATED:
                    held[category_of(layout, block)] += block.size_bytes
            yield release.segment.size_bytes, held


def category_of(layout: DeviceLayout, block: Block) -> Category:
    """The category of the tensor in a block."""
    owner = layout.owners.get(block.address)
    return owner.category if owner else Category.UNATTRIBUTED
