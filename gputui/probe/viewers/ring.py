"""How many events PyTorch keeps while a step is recorded, so that one stop can read them all."""

from __future__ import annotations

STOP_S = 0.1
"""The longest stop at the end of a recording."""
MAX_EVENTS = 16_000
"""The greatest length of the ring. With stacks, reading an event takes 1 to 3 us on a quiet machine."""
LEAST_EVENTS = 500
"""A shorter ring would hold no step of any model."""
EVENTS_SHARE = 0.25
"""The part of `STOP_S` that the trial may predict for reading map and events; the machine may become busier."""


def ring_length(without_s: float, with_s: float, counts: list[int]) -> int:
    """How many events of each device to keep, so that reading them takes no longer than planned.

    In the trial, reading took `with_s` with so many events of each device as `counts` says. Switching the recording on,
    without any events, took `without_s`; as the first call, it may have been slow for other reasons.
    """
    map_s = min(without_s, with_s / 2)
    per_event_s = (with_s - map_s) / max(1, sum(counts))
    left_s = max(0.0, STOP_S * EVENTS_SHARE - map_s)
    if left_s >= per_event_s * MAX_EVENTS * len(counts):
        return MAX_EVENTS
    return max(LEAST_EVENTS, int(left_s / per_event_s / len(counts)))
