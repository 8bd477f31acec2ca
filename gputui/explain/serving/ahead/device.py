"""A GPU that a server would run on: how much of its memory there is, as cudaMemGetInfo says it."""

from __future__ import annotations

from dataclasses import dataclass

from gputui.explain.serving.ahead.estimates import DRIVER, Between


@dataclass(frozen=True, slots=True)
class Device:
    """`total_bytes` is a range where only the figure of nvidia-smi is known."""

    name: str
    total_bytes: Between


def device_by_name(name: str, smi_bytes: int) -> Device:
    """A GPU with the memory that nvidia-smi shows."""
    return Device(name, Between(smi_bytes - DRIVER.most, smi_bytes - DRIVER.least))
