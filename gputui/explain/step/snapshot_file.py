"""Recorded steps in the form of `torch.cuda.memory._snapshot()`: a trace for each device, with the names of blocks."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from gputui.explain.memory_viz import PICKLE_PROTOCOL, named_frame, site_frame, snapshot
from gputui.explain.step.step import Step
from gputui.model.allocator import AllocatorMap
from gputui.model.analysis import Owner
from gputui.model.target import Look
from gputui.model.tensors import Category


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
    names = {block: [named_frame(owner)] for block, owner in step.naming.owners.items()}
    kinds = {kind: [named_frame(Owner(Category.OTHER, f"{kind.value} of the step"))] for kind in step.kinds}
    events = []
    for event in range(len(trace)):
        block, stack = step.timeline.blocks[event], trace.stacks[event]
        name = names.get(block) or (kinds[step.kind_of(block)] if block >= 0 else [])
        action = trace.action_name(event)
        events.append(
            {
                "action": action,
                "device_free" if action == "oom" else "addr": trace.addresses[event],
                "size": trace.sizes_bytes[event],
                "stream": trace.streams[event],
                "time_us": trace.times_us[event],
                "frames": [*name, *(frames[stack] if stack >= 0 else [])],
            }
        )
    return events
