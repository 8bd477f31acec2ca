"""What a rule about the machine looks at: the newest snapshot, the history, and which process holds what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from gputui.model.history import SPANS_S, History
from gputui.model.machine.device import Device, DeviceUse
from gputui.model.machine.process import Identity, Process
from gputui.model.machine.snapshot import Snapshot
from gputui.model.reading import value_of
from gputui.model.weight import Weight

_MINUTE = round(60 / SPANS_S[0])
_MISSED_AT_MOST = 0.2
"""The share of points that may be missing: now and then a reading comes late."""


class Sign(NamedTuple):
    """What a rule sees now. A sign becomes a finding once it has been seen for as long as the rule asks.

    `about` tells signs of one rule and one device apart. `since` is when the sign began, where the rule knows that.
    """

    where: str
    title: str
    evidence: tuple[str, ...]
    remedy: str
    device: str = ""
    process: Identity | None = None
    weight: Weight = Weight.PROBLEM
    about: str = ""
    since: float | None = None


class Holding(NamedTuple):
    """A process, and what it does on one device."""

    process: Process
    use: DeviceUse

    @property
    def used_bytes(self) -> int:
        """The bytes that the process holds on the device, 0 where NVML does not say."""
        return value_of(self.use.used_bytes) or 0

    @property
    def who(self) -> str:
        """ "ana (PID 42, Slurm job 4711)", as far as known."""
        owner = value_of(self.process.owner)
        group = f", {owner.group[0]} {owner.group[1]}" if owner and owner.group else ""
        return f"{value_of(self.process.user) or 'somebody'} (PID {self.process.pid}{group})"


class Scene:
    """The machine at one moment, with its history; `known` are the GPUs of earlier snapshots, by key."""

    def __init__(self, snapshot: Snapshot, history: History, known: Mapping[str, Device]) -> None:
        self.snapshot, self.history, self.known = snapshot, history, known
        self.devices = snapshot.devices.devices

    @cached_property
    def by_device(self) -> Mapping[str, list[Holding]]:
        """The processes on each device, those that hold most first."""
        found: dict[str, list[Holding]] = defaultdict(list)
        for process in self.snapshot.processes.processes:
            for use in process.uses:
                found[use.device].append(Holding(process, use))
        for holdings in found.values():
            holdings.sort(key=lambda holding: -holding.used_bytes)
        return found

    def holdings(self, device: Device) -> list[Holding]:
        """The processes on a device, those that hold most first."""
        return self.by_device.get(device.key, [])

    def minute(self, owner: str, series: str) -> list[float]:
        """The points of the last minute; none where too many are missing."""
        points = [point for point in self.history.last(owner, series, _MINUTE) if point is not None]
        return points if len(points) >= _MINUTE * (1 - _MISSED_AT_MOST) else []


def place(device: Device) -> str:
    """ "GPU 3", and "GPU 3.1" for a MIG instance."""
    return f"GPU {device.label}"


def mean(points: list[float]) -> float:
    return sum(points) / len(points)
