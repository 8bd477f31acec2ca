"""Hand-allocator_layout layouts of device 0, built from segments and the owners of some blocks."""

from __future__ import annotations

from gputui.explain.memory.release import predict_device
from gputui.explain.owners.owners import UNATTRIBUTED, block_bytes, bytes_by_category
from gputui.model.attached.allocator import BlockState, Segment
from gputui.model.attached.analysis import Owner, SegmentRelease
from gputui.model.attached.moment import DeviceLayout
from gputui.model.attached.tensors import Category
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.attach.map.cells import Run, draw_runs
from gputui.ui.drawing.line import text_of
from tests.explain.maps import layout, statistics
from tests.explain.named import named

WEIGHT = Owner(Category.PARAMETER, named("fc.weight"), "Parameter", (1024, 512), "float32")
STATE = Owner(Category.OPTIMIZER_STATE, named("opt.state[fc.weight].exp_avg"), "Tensor", (1024, 512), "float32")
OUT = Owner(Category.ACTIVATION, named("out (train.py:7)"), "Tensor", (8,), "float32", saved_by="MulBackward0")
PLAIN = Appearance()


def device_layout(*segments: Segment, owners: tuple[Owner, ...] = (), pools=(), routed=()) -> DeviceLayout:
    """`owners` are assigned to the live blocks in order; any remaining live blocks have no owner."""
    allocator_layout = layout(*segments, pools=pools, routed=routed)
    live = [block.address for segment in segments for block in segment.blocks if is_live(block)]
    of_blocks = dict.fromkeys(live, UNATTRIBUTED) | dict(zip(live, owners, strict=False))
    return DeviceLayout(
        statistics=statistics(allocator_layout),
        settings=allocator_layout.settings,
        release=predict_device(allocator_layout, 0, of_blocks),
        owners=of_blocks,
        by_category=bytes_by_category(block_bytes(allocator_layout, of_blocks, 0)),
        groups=(),
        storages=(),
    )


def is_live(block) -> bool:
    return block.state is BlockState.ACTIVE_ALLOCATED


def release_of(*segments: Segment, owners: tuple[Owner, ...] = (), **rest) -> SegmentRelease:
    """The predicted release of the first segment."""
    return device_layout(*segments, owners=owners, **rest).release.segments[0]


def drawn(runs: tuple[Run, ...], appearance: Appearance = PLAIN, selected: range = range(0)) -> str:
    """The runs as text."""
    return text_of((draw_runs(runs, appearance, selected),))
