"""CUDA contexts of no use: of this process on a device without its tensors, and of other processes on its device."""

from __future__ import annotations

from collections.abc import Sequence

from gputui.explain.advice.situation import Situation
from gputui.explain.advice.thresholds import OTHERS_SHARE, PART_BYTES
from gputui.explain.owners.names import listed
from gputui.model.attached.analysis import Finding
from gputui.model.reading import value_of
from gputui.model.weight import Weight
from gputui.units import format_bytes

REMEDY = (
    "Call torch.cuda.set_device(local_rank) before anything else of torch.cuda, load checkpoints with"
    ' torch.load(..., map_location="cpu"), or start each rank with only its own device in CUDA_VISIBLE_DEVICES.'
)


def idle_context(situation: Situation) -> Finding | None:
    """This process holds memory on a device without having tensors there, while it has tensors on another."""
    device = situation.device
    used = value_of(device.driver.process_used_bytes)
    worked_on = [other for other in situation.moment.devices if other.statistics.allocated_bytes]
    if not used or device.statistics.allocated_bytes or not worked_on:
        return None
    names = listed(f"cuda:{other.number}" for other in worked_on)
    evidence = [f"NVML lists it here with {format_bytes(used)}; its tensors are on {names}."]
    peak = device.statistics.peak_reserved_bytes
    if peak >= PART_BYTES:
        evidence.append(
            f"PyTorch had up to {format_bytes(peak)} reserved here, as torch.load() does without map_location."
        )
    return Finding(
        weight=Weight.ADVICE,
        title=f"This process has a CUDA context here and no tensor: {format_bytes(used)} that others cannot use.",
        evidence=tuple(evidence),
        remedy=REMEDY,
        bytes=used,
    )


def visitors(situation: Situation) -> Finding | None:
    """Other processes work on another device and hold a CUDA context on this one."""
    driver, world_size = situation.device.driver, situation.moment.greeting.world_size or 1
    total, held = value_of(driver.device_total_bytes), visited_bytes(situation)
    if not total or held < OTHERS_SHARE * total:
        return None
    count = len(driver.visitors)
    who = "process" if count == 1 else "processes"
    pids = f"PID {listed(str(one.pid) for one in driver.visitors)}"
    ranks = f" This job has {world_size} ranks." if world_size > 1 else ""
    return Finding(
        weight=Weight.ADVICE,
        title=f"{count} {who} that {'works' if count == 1 else 'work'} on other devices"
        f" {'has' if count == 1 else 'have'} a CUDA context here, too: {format_bytes(held)}.",
        evidence=(f"{_each([one.used_bytes for one in driver.visitors])} here and more elsewhere: {pids}.{ranks}",),
        remedy=REMEDY,
        bytes=held,
    )


def visited_bytes(situation: Situation) -> int:
    """The bytes that processes hold here which work on another device."""
    return sum(one.used_bytes for one in situation.device.driver.visitors)


def _each(sizes: Sequence[int]) -> str:
    least, most = format_bytes(min(sizes)), format_bytes(max(sizes))
    if len(sizes) == 1:
        return f"It holds {most}"
    return f"Each holds {most if least == most else f'{least} to {most}'}"
