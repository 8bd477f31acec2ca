"""Which of several free blocks of one size PyTorch takes, told from where a trace's blocks lie.

Older versions take the one with the lowest address. Newer ones (seen in 2.15) take the one in the segment that came
first, so that all ranks of a job take the same one.
"""

from __future__ import annotations

from dataclasses import replace

from gputui.explain.whatif.allocator import Allocator
from gputui.explain.whatif.layout import StartLayout
from gputui.explain.whatif.operations import Kind, Operations
from gputui.explain.whatif.replay import Run
from gputui.explain.whatif.settings import Device
from gputui.model.allocator import AllocatorSettings

OPERATIONS_AT_MOST = 20_000
"""So many are replayed to find out; two blocks of one size are free sooner."""


def with_order(
    settings: AllocatorSettings, operations: Operations, device: Device, start: StartLayout | None
) -> AllocatorSettings:
    """The settings under which the trace was recorded, with the order that its addresses show; as it is if none."""
    other = replace(settings, prefers_older=not settings.prefers_older)
    return max((settings, other), key=lambda one: _agreement(one, operations, device, start))  # the first of equals


def _agreement(settings: AllocatorSettings, operations: Operations, device: Device, start: StartLayout | None) -> int:
    """Before which operation a replay first takes another block than the recording, as far as is looked."""
    run = Run(operations, Allocator(settings, device), operations.sizes_bytes)
    if run.begin(start) is not None:
        return 0
    offsets: dict[int, int] = {}
    end = min(len(operations.kinds), OPERATIONS_AT_MOST)
    for place in range(end):
        if run.go(place, place + 1) is not None:
            return place
        if operations.kinds[place] == Kind.MALLOC:
            number = operations.numbers[place]
            block = run.blocks[number]
            offset = operations.addresses[number] - block.address
            if offsets.setdefault(block.segment, offset) != offset:
                return place
    return end
