"""A look in the form of `torch.cuda.memory._snapshot()`, which the viewer at pytorch.org/memory_viz opens.

The viewer shows a stack for each block; here the stack consists of the block's category and owner and, where it is
known, the line that allocated it. Events also have the field of `torch.cuda.memory._set_memory_metadata()`, which
blocks lack in PyTorch's snapshots.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from gputui.explain.owners.owners import owners_of
from gputui.explain.step.step import Step
from gputui.model.attached.allocator import AllocatorMap, AllocatorSettings, Block, BlockState, CallSite, Segment
from gputui.model.attached.analysis import Owner
from gputui.model.attached.owners import OwnerKind, OwnerName
from gputui.model.attached.target import Look
from gputui.model.attached.tensors import Category

PICKLE_PROTOCOL = 4
"""The newest protocol that the viewer reads: for 5 it shows an empty page."""

UNLIMITED = -1
_HIDDEN_BY_THE_VIEWER = ("_start", "PyObject_", "PyFunction_", "PyEval_")
"""The viewer leaves out frames with these in their names, as the interpreter's own."""


def snapshot_file(look: Look, layout: AllocatorMap) -> bytes:
    """The snapshot as the viewer's file."""
    return pickle.dumps(snapshot(look, layout), PICKLE_PROTOCOL)


def snapshot(look: Look, layout: AllocatorMap) -> dict[str, Any]:
    """The snapshot of a look with its map: segments with their blocks, and an empty trace for each device."""
    devices = range(1 + max((segment.device for segment in layout.segments), default=-1))
    owners = {device: owners_of(layout, look.inventory, device) for device in devices}
    return {
        "segments": [_segment(segment, owners[segment.device]) for segment in layout.segments],
        "device_traces": [[] for _ in devices],
        "allocator_settings": _settings(layout.settings),
        "external_annotations": [],
    }


def _segment(segment: Segment, owners: Mapping[int, Owner]) -> dict[str, Any]:
    active = [block for block in segment.blocks if block.state is not BlockState.INACTIVE]
    return {
        "device": segment.device,
        "address": segment.address,
        "total_size": segment.size_bytes,
        "allocated_size": sum(block.size_bytes for block in active if block.state is BlockState.ACTIVE_ALLOCATED),
        "active_size": sum(block.size_bytes for block in active),
        "requested_size": sum(block.requested_bytes for block in active),
        "stream": segment.stream,
        "segment_type": "small" if segment.is_small else "large",
        "segment_pool_id": segment.pool_id,
        "is_expandable": segment.is_expandable,
        "frames": [],
        "blocks": [_block(block, owners.get(block.address)) for block in segment.blocks],
    }


def _block(block: Block, owner: Owner | None) -> dict[str, Any]:
    return {
        "address": block.address,
        "size": block.size_bytes,
        "requested_size": block.requested_bytes,
        "state": block.state.value,
        "frames": ([named_frame(owner)] if owner else []) + ([site_frame(block.site)] if block.site else []),
    }


def _metadata(owner: Owner) -> str:
    """A block's name, category and layer, as one text."""
    layer = f", {owner.module}" if owner.module else ""
    return f"{owner.name or owner.type} ({owner.category.value}{layer})".strip()


def site_frame(site: CallSite) -> dict[str, Any]:
    """A line of the program as a frame."""
    return {"name": site.function, "filename": site.file, "line": site.line}


def named_frame(owner: Owner) -> dict[str, Any]:
    """A block's category and owner as a frame."""
    name = str(owner.name)
    for part in _HIDDEN_BY_THE_VIEWER:
        name = name.replace(part, part.replace("_", "-"))
    return {"name": name, "filename": owner.category.value, "line": 0}


def _settings(settings: AllocatorSettings) -> dict[str, Any]:
    divisions = enumerate(settings.roundup_divisions)
    return {
        "PYTORCH_CUDA_ALLOC_CONF": ",".join(f"{name}:{value}" for name, value in settings.values),
        "max_split_size": settings.max_split_bytes or UNLIMITED,
        "expandable_segments": settings.is_expandable,
        "roundup_power2_divisions": {str(2**place): count for place, count in divisions},  # by MiB
    }


def step_file(steps: Sequence[Step], look: Look, layout: AllocatorMap) -> bytes:
    """The look with its map and the whole traces of these steps, as the viewer's file."""
    content = snapshot(look, layout)
    traces = content["device_traces"]
    for step in steps:
        traces.extend([] for _ in range(step.timeline.trace.device + 1 - len(traces)))
        traces[step.timeline.trace.device] = _trace(step)
    return pickle.dumps(content, PICKLE_PROTOCOL)


def _trace(step: Step) -> list[dict[str, Any]]:
    trace = step.timeline.trace
    frames = [[site_frame(site) for site in stack] for stack in trace.stack_table]
    owners = step.naming.owners
    kinds = {
        kind: Owner(Category.OTHER, OwnerName(f"{kind.value} of the step", kind=OwnerKind.WORDS)) for kind in step.kinds
    }
    events = []
    for event in range(len(trace)):
        block, stack = step.timeline.blocks[event], trace.stacks[event]
        owner = owners.get(block) or (kinds[step.kind_of(block)] if block >= 0 else None)
        action = trace.action_name(event)
        events.append(
            {
                "action": action,
                "device_free" if action == "oom" else "addr": trace.addresses[event],
                "size": trace.sizes_bytes[event],
                "stream": trace.streams[event],
                "time_us": trace.times_us[event],
                "frames": [*([named_frame(owner)] if owner else []), *(frames[stack] if stack >= 0 else [])],
                "user_metadata": _metadata(owner) if owner else "",
            }
        )
    return events
