"""The intervals between looks that the keys go through."""

from __future__ import annotations

INTERVALS_S = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)


def neighbour(interval_s: float, steps: int) -> float:
    """The next longer interval (`steps` is 1) or the next shorter one (-1); the same where there is none."""
    candidates = [candidate for candidate in INTERVALS_S if (candidate - interval_s) * steps > 0]
    return min(candidates, key=lambda candidate: abs(candidate - interval_s), default=interval_s)
