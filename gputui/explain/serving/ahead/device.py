"""A GPU that a server would run on, with its memory as cudaMemGetInfo reports it."""

from __future__ import annotations

from dataclasses import dataclass

from gputui.explain.serving.ahead.estimates import DRIVER, Between


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU. `total_bytes` is a range where only nvidia-smi's figure is known."""

    name: str
    total_bytes: Between


def device_by_name(name: str, smi_bytes: int) -> Device:
    """A GPU of which nvidia-smi's figure is known."""
    return Device(name, Between(smi_bytes - DRIVER.most, smi_bytes - DRIVER.least))
