"""What a server in sleep mode has given back to the driver, which PyTorch's counters do not notice."""

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
    """The `bytes` of the segments whose pages are gone, and those of their tensors, which keep their addresses."""

    bytes: int = 0
    live: Counter[Category] = field(default_factory=Counter)


def asleep(device: DeviceMoment) -> Asleep:
    """What is not on the device: the KV cache, and the weights too if that alone does not explain NVML's figure.

    It lies in private pools. NVML's figure of the process is then below what PyTorch has reserved.
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
    """The bytes of each segment in a private pool, and those of what lives there."""
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
    """Of what lives in a block."""
    owner = layout.owners.get(block.address)
    return owner.category if owner else Category.UNATTRIBUTED
