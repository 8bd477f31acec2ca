"""The position and speed of a replay."""

from __future__ import annotations

from dataclasses import dataclass

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


@dataclass(frozen=True, slots=True)
class Playback:
    """Seconds since the recording began, its length, and how many recorded seconds pass in a second."""

    position_s: float
    length_s: float
    speed: float = 1.0
    is_playing: bool = True

    @property
    def shown(self) -> tuple[int, int, float, bool]:
        """What screens show of it: equal if it looks the same."""
        return int(self.position_s), int(self.length_s), self.speed, self.is_playing

    @property
    def is_at_end(self) -> bool:
        """Whether the end is reached."""
        return self.position_s >= self.length_s
