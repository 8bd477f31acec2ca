"""Where a replay stands."""

from __future__ import annotations

from dataclasses import dataclass

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


@dataclass(frozen=True, slots=True)
class Playback:
    """Seconds since the recording began, of so many, at so many recorded seconds a second."""

    position_s: float
    length_s: float
    speed: float = 1.0
    is_playing: bool = True

    @property
    def shown(self) -> tuple[int, int, float, bool]:
        """What a screen says of it: equal where it looks equal."""
        return int(self.position_s), int(self.length_s), self.speed, self.is_playing

    @property
    def is_at_end(self) -> bool:
        """Whether nothing is left to show."""
        return self.position_s >= self.length_s
