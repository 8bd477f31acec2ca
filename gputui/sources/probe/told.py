"""What a probe reports about its process without a look, for lists and for Prometheus."""

from __future__ import annotations

from dataclasses import dataclass

from gputui.explain.moment.disconnects import sentence
from gputui.model.attached.allocator import AllocatorStatistics
from gputui.model.attached.target import Disconnect, DisconnectKind, Greeting
from gputui.sources.probe.client import ProbeClient


@dataclass(frozen=True, slots=True)
class ProbeInfo:
    """A process with a probe: greeting and counters of devices with reserved memory, or why it did not answer."""

    pid: int
    user: str
    greeting: Greeting | None
    held: tuple[AllocatorStatistics, ...] = ()
    problem: str = ""


def told_by(client: ProbeClient, pid: int, user: str) -> ProbeInfo:
    """What the probe says now."""
    held = tuple(device for device in client.statistics().devices if device.reserved_bytes)
    return ProbeInfo(pid, user, client.greeting, held)


def silent(pid: int, user: str, within_s: float) -> ProbeInfo:
    """A process whose probe has not answered in this time."""
    return ProbeInfo(pid, user, None, problem=sentence(pid, Disconnect(DisconnectKind.TIMED_OUT, f"{within_s:g}")))
