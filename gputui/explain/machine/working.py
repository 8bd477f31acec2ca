"""Devices that do not work: busy with kernels that only wait, or held by processes that do nothing."""

from __future__ import annotations

from collections.abc import Iterator

from gputui.explain.machine import thresholds
from gputui.explain.machine.scene import Holding, Scene, Sign, mean, place
from gputui.model.machine.device import Device
from gputui.model.machine.programs import program_of
from gputui.model.reading import Absent, value_of
from gputui.model.weight import Weight
from gputui.units import format_bytes, format_rate

_COMMAND_AT_MOST = 80
"""Letters of a command in a sentence."""


def not_working(scene: Scene) -> Iterator[Sign]:
    """Devices that are busy all the time, and by two signals or more do next to nothing.

    One signal is not enough: failed profiling may read 0, and low power alone is a small model. No number of signals is
    enough where the units or the power show that the device works.
    """
    for device in scene.devices:
        if (value_of(device.gpu_utilization_percent) or 0) < thresholds.BUSY_PERCENT:
            continue
        busy = scene.minute(device.key, "gpu_utilization_percent")
        if not busy or min(busy) < thresholds.BUSY_PERCENT:
            continue
        signals = [signal(device, scene) for signal in (_resting_units, _little_power, _quiet_links)]
        seen = [signal for signal in signals if signal]
        if len(seen) >= thresholds.SIGNALS_AT_LEAST and "" not in signals[:2]:
            yield Sign(
                place(device),
                "Busy, and hardly working",
                (f"Utilisation has been {min(busy):.0f}% or more for a minute.", *seen),
                "Its kernels seem to wait, as in a collective for a rank that is behind: c on a rank in the monitor "
                "asks NCCL which one, and Enter shows what a process's main thread waits for.",
                device=device.key,
            )


def _resting_units(device: Device, scene: Scene) -> str | None:
    """That tensor cores, pipes and memory rest, and few SMs are active; "" if not, None where it is not measured."""
    tensor, memory = (scene.minute(device.key, series) for series in ("tensor_percent", "dram_percent"))
    if not tensor or not memory:
        return None
    pipes = [value_of(pipe) or 0.0 for pipe in (device.fp64_percent, device.fp32_percent, device.fp16_percent)]
    sms = scene.minute(device.key, "sm_active_percent")
    if max(*tensor, *memory, *pipes) >= thresholds.RESTING_PERCENT or mean(sms or [0]) >= thresholds.FEW_SMS_PERCENT:
        return ""
    return f"Tensor cores are used at most {max(tensor):.0f}%, memory bandwidth at most {max(memory):.0f}%."


def _little_power(device: Device, scene: Scene) -> str | None:
    power, limit_w = scene.minute(device.key, "power_w"), value_of(device.power_limit_w)
    if not power or not limit_w:
        return None
    if max(power) >= thresholds.LOW_POWER_SHARE * limit_w:
        return ""
    return f"It takes at most {max(power):.0f} W of {limit_w:.0f} W."


def _quiet_links(device: Device, scene: Scene) -> str | None:
    """That next to nothing goes over PCIe and NVLink; "" if not, None where PCIe is not measured."""
    received = scene.minute(device.key, "pcie_rx_bytes_per_s")
    sent = device.pcie_tx_bytes_per_s
    if not received or isinstance(sent, Absent):
        return None
    links = value_of(device.nvlinks)
    over_links = max(links.tx_bytes_per_s or 0, links.rx_bytes_per_s or 0) if links else 0.0
    if max(*received, sent, over_links) >= thresholds.QUIET_LINK_BYTES_PER_S:
        return ""
    return f"PCIe carries at most {format_rate(max(*received, sent))}."


def idle_held(scene: Scene) -> Iterator[Sign]:
    """Devices whose memory is held by processes, and which none of them uses."""
    for device in scene.devices:
        holders = scene.holdings(device)
        held_bytes = sum(holder.used_bytes for holder in holders)
        if held_bytes < thresholds.HELD_BYTES:
            continue
        used = _use(device, scene)
        if used is not None and used < thresholds.USED_PERCENT:
            yield _held(device, holders, held_bytes, _held_since(device, holders, scene))


def _use(device: Device, scene: Scene) -> float | None:
    """The mean utilisation in the last minute, or that of the SMs (a MIG instance has only this); None without both."""
    for series in ("gpu_utilization_percent", "sm_active_percent"):
        points = [point for point in scene.history.last(device.key, series, 30) if point is not None]
        if points:
            return mean(points)
    return None


def _held_since(device: Device, holders: list[Holding], scene: Scene) -> float | None:
    """Since when the archive has the device idle, but not before the first of these processes started."""
    recorded = scene.snapshot.idle_since.get(device.key)
    if recorded is None:
        return None
    started = (holder.process.identity.started for holder in holders)
    return max(recorded, min((time for time in started if time is not None), default=recorded))


def _program(holder: Holding) -> str:
    command = value_of(holder.process.command)
    return f" in {program_of(command)[:_COMMAND_AT_MOST].rstrip()}" if command else ""


def _held(device: Device, holders: list[Holding], held_bytes: int, since: float | None) -> Sign:
    first, others = holders[0], len(holders) - 1
    more = f" and {others} more" if others else ""
    return Sign(
        place(device),
        f"Held and not used: {first.who}{more} hold{'' if others else 's'} {format_bytes(held_bytes)}",
        tuple(f"{holder.who} holds {format_bytes(holder.used_bytes)}{_program(holder)}." for holder in holders[:4]),
        "Ask whose it is whether it is still needed: a notebook gives its memory back when its kernel is shut down. "
        "T on a process asks it to end.",
        device=device.key,
        process=first.process.identity if not others else None,
        weight=Weight.ADVICE,
        since=since,
    )
