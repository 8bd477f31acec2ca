"""Meters and graphs in text: eighths of a cell, braille dots, or plain ASCII."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gputui.ui.drawing.line import Line, join


class Glyphs(NamedTuple):
    """The characters to draw with: `eighths` fill a cell from the left, `rises` from below, both in equal steps."""

    eighths: str
    empty: str
    rises: str
    rule: str
    ellipsis: str
    up: str
    down: str
    tag: str
    branch: str
    last_branch: str
    trunk: str
    alarm: str
    probe: str


UNICODE = Glyphs("▏▎▍▌▋▊▉█", "░", " ▁▂▃▄▅▆▇█", "─", "…", "▲", "▼", "●", "├─", "└─", "│ ", "▲", "◆")
ASCII = Glyphs("#", ".", " .:-=+*#", "-", "~", "^", "v", "*", "|-", "`-", "| ", "!", "@")


def meter(fraction: float, width: int, role: str, glyphs: Glyphs) -> Line:
    """A bar of `width` cells filled to `fraction` (0..1, clipped)."""
    steps = len(glyphs.eighths)
    filled = round(min(1.0, max(0.0, fraction)) * width * steps)
    whole, part = divmod(filled, steps)
    text = glyphs.eighths[-1] * whole + (glyphs.eighths[part - 1] if part else "")
    return join(((text, role), (glyphs.empty * (width - len(text)), "track")))


def sparkline(fractions: Sequence[float | None], glyphs: Glyphs) -> str:
    """One cell for each value of 0..1, a space where there is none; a value above 0 always shows."""
    top = len(glyphs.rises) - 1
    return "".join(" " if fraction is None else glyphs.rises[_level(fraction, top)] for fraction in fractions)


def area(fractions: Sequence[float | None], height: int, glyphs: Glyphs) -> list[str]:
    """An area graph of `height` lines, top line first, one cell for each value of 0..1."""
    steps = len(glyphs.rises) - 1
    levels = [None if fraction is None else _level(fraction, steps * height) for fraction in fractions]
    return [
        "".join(" " if level is None else glyphs.rises[min(steps, max(0, level - base))] for level in levels)
        for base in range(steps * (height - 1), -1, -steps)
    ]


def _level(fraction: float, top: int) -> int:
    level = round(min(1.0, max(0.0, fraction)) * top)
    return max(level, 1) if fraction > 0 else 0
