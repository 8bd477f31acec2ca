"""The readings of several nodes or GPUs together: means of shares, sums of amounts, the highest temperature."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gputui.model.fleet.parts import NOT_EXPORTED, FleetDevice, Node, Readings
from gputui.model.reading import Reading, value_of

SHARES = ("busy_percent", "sm_active_percent", "tensor_percent")
AMOUNTS = ("used_bytes", "total_bytes", "power_w", "power_limit_w")


def together(nodes: Sequence[Node]) -> Readings:
    """The readings of several nodes; shares are weighted by a node's number of GPUs."""
    return Readings(
        **{name: _mean((getattr(node.readings, name), node.gpus) for node in nodes) for name in SHARES},
        **{name: _sum(getattr(node.readings, name) for node in nodes) for name in AMOUNTS},
        temperature_c=_most(node.readings.temperature_c for node in nodes),
    )


def of_devices(devices: Iterable[FleetDevice]) -> Readings:
    """The readings of several GPUs."""
    return together([Node(device.place, 1, device.readings) for device in devices])


def _mean(weighted: Iterable[tuple[Reading[float], int]]) -> Reading[float]:
    known = [(value, weight) for reading, weight in weighted if (value := value_of(reading)) is not None]
    weights = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / weights if weights else NOT_EXPORTED


def _sum(readings: Iterable[Reading[float]]) -> Reading[float]:
    known = [value for reading in readings if (value := value_of(reading)) is not None]
    return sum(known) if known else NOT_EXPORTED


def _most(readings: Iterable[Reading[float]]) -> Reading[float]:
    return max((value for reading in readings if (value := value_of(reading)) is not None), default=NOT_EXPORTED)
