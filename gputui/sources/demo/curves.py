"""How the demonstration's figures change: functions of time alone, so that a moment always looks the same."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable

Curve = Callable[[float], float]
"""A value by time, in seconds since the simulation began; negative times are valid, too."""

_PERIODS_S = (7.3, 19.1, 53.7)


def noise(name: str, seed: int = 0) -> Curve:
    """Wanders between -1 and 1, differently for each name and seed."""
    phases = [zlib.crc32(f"{seed} {name} {period}".encode()) / 2**32 * math.tau for period in _PERIODS_S]
    terms = tuple(zip(_PERIODS_S, phases, strict=True))

    def at(time_s: float) -> float:
        return sum(math.sin(math.tau * time_s / period + phase) for period, phase in terms) / len(terms)

    return at


def constant(value: float) -> Curve:
    """Always the same value."""
    return lambda _: value


def around(value: float, spread: float, wander: Curve) -> Curve:
    """Wanders around a value, never below zero."""
    return lambda time_s: max(0.0, value + spread * wander(time_s))


def training(high: float, wander: Curve, pause_every_s: float = 75.0, pause_s: float = 7.0) -> Curve:
    """Busy, with a short regular pause, as for an evaluation or a checkpoint."""

    def at(time_s: float) -> float:
        # A sigmoid, so that the pause begins and ends within two seconds.
        phase = (time_s + pause_every_s / 2) % pause_every_s - pause_every_s / 2
        depth = 1 / (1 + math.exp(3.0 * (abs(phase) - pause_s / 2)))
        return max(0.0, min(1.0, (high + 0.03 * wander(time_s)) * (1 - 0.9 * depth)))

    return at


def staircase(low: float, high: float, step_s: float, steps: int) -> Curve:
    """Grows step by step and starts again: a memory leak."""
    return lambda time_s: low + (high - low) * (int(time_s // step_s) % steps) / (steps - 1)


def bursts(high: float, wander: Curve) -> Curve:
    """Quiet, with bursts of work: a server that gets requests."""
    return lambda time_s: high * max(0.0, wander(time_s) + 0.15) ** 0.7
