"""A what-if before anything runs: from the requests of a step on tensors without data."""

from __future__ import annotations

from array import array

from gputui.explain.whatif.allocator.settings import Device
from gputui.explain.whatif.replay.recorded import Recorded
from gputui.explain.whatif.trace.operations import Kind, Operations
from gputui.explain.whatif.trace.parts import parts_ahead
from gputui.explain.whatif.trace.scaling import SMALLEST_SCALED_BYTES, varying
from gputui.model.attached.allocator import AllocatorSettings
from gputui.model.attached.trace import Rehearsal
from gputui.protocol.categories import WEIGHTS

VARYING = frozenset({"activation", "batch"})
"""Categories whose sizes depend on the batch."""
NOT_COUNTED = (
    "Nothing ran: cuDNN's workspaces, and what single kernels allocate and free again, are not in these figures."
)


STEPS = 2
"""How many optimizer steps a rehearsed program takes: the first makes the states, the second has its peak with them."""
_FEW_STEPS = (
    "No optimizer of PyTorch's took a step: the peak is that of all that the program did.",
    "The program ended after one step of its optimizer, in which the optimizer's states were made.",
)


def recorded_ahead(rehearsal: Rehearsal, settings: AllocatorSettings, device: Device) -> Recorded:
    """The rehearsed step in the form of a trace that begins with the program."""
    operations = operations_ahead(rehearsal)
    varies = varying_ahead(rehearsal, operations)
    parts = parts_ahead(rehearsal, operations)
    return Recorded(operations, settings, device, None, varies, None, doubts_of(rehearsal), parts)


def varying_ahead(rehearsal: Rehearsal, operations: Operations) -> bytes:
    """For each allocation 1 if its size is in proportion to the batch, else 0.

    An allocation as large as a parameter, or half as large, may be a gradient within the backward pass or a copy by
    autocast: there the lifetime decides, as `scaling.varying` reads it.
    """
    by_life = varying(operations)
    columns = list(zip(rehearsal.categories, rehearsal.sizes_bytes, by_life, strict=True))
    weights = {size for category, size, _ in columns if category in WEIGHTS}
    if not weights:
        return by_life
    weights |= {size // 2 for size in weights}
    return bytes(
        category in VARYING and size >= SMALLEST_SCALED_BYTES and (size not in weights or flag)
        for category, size, flag in columns
    )


def operations_ahead(rehearsal: Rehearsal) -> Operations:
    """The requests and frees of a rehearsal in order."""
    numbers = array("q", [event if event >= 0 else -1 - event for event in rehearsal.events])
    count = len(rehearsal.sizes_bytes)
    return Operations(
        bytes(Kind.MALLOC if event >= 0 else Kind.FREE for event in rehearsal.events),
        numbers,
        array("q", range(len(numbers))),
        rehearsal.sizes_bytes,
        rehearsal.streams or array("Q", [0]) * count,
        array("Q", [0]) * count,
        earlier=0,
    )


def doubts_of(rehearsal: Rehearsal) -> tuple[str, ...]:
    """Why the figures are not exact, as sentences."""
    doubts = [NOT_COUNTED]
    if rehearsal.steps is not None and rehearsal.steps < STEPS:
        doubts.append(_FEW_STEPS[rehearsal.steps])
    if rehearsal.is_uncompiled:
        doubts.append("torch.compile was left out: these figures are those of the program without it.")
    doubts += [
        f"The weights of {name} were not read: its tensors are as its configuration says."
        for name in dict.fromkeys(rehearsal.without_weights)
    ]
    if rehearsal.values_read:
        times = "a value" if rehearsal.values_read == 1 else f"{rehearsal.values_read} values"
        doubts.append(f"The program read {times} of tensors on the GPU, and got 0, 1 or False in their place.")
    for name, count in rehearsal.largest_results.items():
        often = "once" if count == 1 else f"{count} times"
        doubts.append(
            f"The size of what {name} gives depends on values ({often}): it was taken for as large as can be."
        )
    return tuple(doubts)
