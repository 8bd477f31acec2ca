"""How the user wants things drawn: the glyphs, and the values from which a number counts as fair or poor."""

from __future__ import annotations

from typing import NamedTuple

from gputui.settings import Settings
from gputui.ui.drawing.meters import ASCII, UNICODE, Glyphs


class Appearance(NamedTuple):
    """Glyphs and thresholds; each pair is the value from which a reading is fair, and the one from which it is poor.

    `temperature_c` is for devices that do not report the temperature at which they slow down.
    """

    glyphs: Glyphs = UNICODE
    memory_percent: tuple[float, float] = (80.0, 95.0)
    temperature_c: tuple[float, float] = (75.0, 85.0)
    cpu_percent: tuple[float, float] = (75.0, 95.0)

    @property
    def is_ascii(self) -> bool:
        """Whether only ASCII may reach the terminal."""
        return self.glyphs is ASCII

    @property
    def absent(self) -> str:
        """What stands for a reading that is not there."""
        return "-" if self.is_ascii else "–"


def appearance_of(settings: Settings) -> Appearance:
    """The appearance that the settings ask for."""
    percent = (float(settings.warm_percent), float(settings.hot_percent))
    heat = (float(settings.warm_c), float(settings.hot_c))
    return Appearance(
        ASCII if settings.ascii else UNICODE, memory_percent=percent, temperature_c=heat, cpu_percent=percent
    )


def level_role(value: float, fair: float, poor: float) -> str:
    """The role of a value: good below `fair`, fair below `poor`, otherwise poor."""
    if value >= poor:
        return "poor"
    return "fair" if value >= fair else "good"
