"""Where a replay stands, in a few cells."""

from __future__ import annotations

from gputui.model.playback import Playback
from gputui.ui.drawing.line import Piece


def draw_playback(playback: Playback) -> list[Piece]:
    """State, speed, position and length."""
    times = f"{_clock(playback.position_s)} / {_clock(playback.length_s)} "
    if playback.is_at_end:
        return [("  END OF REPLAY ", "fair"), (times, "plain")]
    sign: Piece = ("  ▶ ", "good") if playback.is_playing else ("  PAUSED ", "fair")
    return [sign, (f"{_speed(playback.speed)}x ", "accent"), (times, "plain")]


def _clock(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute:02d}:{second:02d}"


def _speed(speed: float) -> str:
    return f"{speed:g}" if speed >= 1 else f"1/{1 / speed:g}"
