"""Hand-made device layouts: tensors by name, category and MiB."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gputui.explain.moment.probe_state import layouts_of
from gputui.model.attached.allocator import Block, BlockState, CallSite
from gputui.model.attached.moment import DeviceLayout
from gputui.model.attached.target import Cost, Look
from gputui.model.attached.tensors import HOST, Category, Inventory, Storage
from gputui.units import MIB
from tests.explain.maps import BASE, layout, segment, statistics
from tests.explain.named import named

HOST_STORAGES = (
    Storage(HOST, 4096, 1000, Category.PARAMETER, named("model.w"), "Parameter", (250,), "float32"),
    Storage(HOST, 8192, 500, Category.OTHER, named("batch"), "Tensor", (125,), "float32", is_pinned=True),
)


def with_lines(layout: DeviceLayout, *lines: int) -> DeviceLayout:
    """The layout with a line of `t.py` as the one that allocated each of the first live blocks."""
    numbers = iter(lines)

    def sited(block: Block) -> Block:
        number = next(numbers, None) if block.state is BlockState.ACTIVE_ALLOCATED else None
        return replace(block, site=CallSite("/home/ana/t.py", number, "f")) if number else block

    segments = (
        replace(release, segment=replace(release.segment, blocks=tuple(map(sited, release.segment.blocks))))
        for release in layout.release.segments
    )
    return replace(layout, release=replace(layout.release, segments=tuple(segments)))


def laid_out(
    *tensors: tuple[str, Category, float], slack: int = 0, nameless: Iterable[float] = (), shown: int = 0
) -> DeviceLayout:
    """A device with these tensors, sizes in MiB, and unattributed blocks of the sizes in `nameless`.

    `shown`: how many bytes of each storage its tensor shows; 0 for all of them.
    """
    storages, blocks, address = [], [], BASE
    for name, category, mib in tensors:
        size = int(mib * MIB)
        views = {"views": ((0, shown),)} if shown else {}
        storages.append(
            Storage(
                0, address, size - slack, category, named(name), "Tensor", ((shown or size) // 4,), "float32", **views
            )
        )
        blocks.append(("live", mib))
        address += size
    made = layout(segment(*blocks, *(("live", mib) for mib in nameless), ("free", 2), slack=slack))
    inventory = Inventory(tuple(storages), "walk", is_of_one_moment=True)
    look = Look(0.0, (statistics(made),), made.settings, made, inventory, Cost(0, 0))
    return layouts_of(look)[0]
