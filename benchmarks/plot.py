"""Line charts as SVG, side by side, without a library."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 340, 240
LEFT, RIGHT, TOP, BOTTOM = 52, 16, 56, 40
COLORS = ("#2a6fdb", "#c8641b", "#3c8d40")
TICKS = 4


class Panel(NamedTuple):
    """One chart: `series` are points (x, y) by name, x rising; the values of x are drawn at equal distances."""

    title: str
    x: str
    y: str
    series: dict[str, Sequence[tuple[float, float]]]


def svg(panels: Sequence[Panel]) -> str:
    """The panels side by side, as an SVG document."""
    body = "".join(
        f'<g transform="translate({WIDTH * number} 0)">{_panel(panel)}</g>' for number, panel in enumerate(panels)
    )
    width = WIDTH * len(panels)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{HEIGHT}" viewBox="0 0 {width} {HEIGHT}" '
        f'font-family="sans-serif" font-size="11" fill="#333"><rect width="{width}" height="{HEIGHT}" fill="#fff"/>'
        f"{body}</svg>\n"
    )


def _panel(panel: Panel) -> str:
    places = sorted({x for points in panel.series.values() for x, _ in points})
    top = max(y for points in panel.series.values() for _, y in points) * 1.1 or 1.0

    def across(x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * places.index(x) / max(1, len(places) - 1)

    def up(y: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / top

    parts = [_text(LEFT, 16, panel.title, weight="bold"), _text(LEFT, 32, panel.y)]
    for tick in range(TICKS + 1):
        y = top * tick / TICKS
        parts.append(f'<path d="M{LEFT} {up(y):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 6, up(y) + 4, f"{y:.3g}", anchor="end"))
    parts += [_text(across(x), HEIGHT - BOTTOM + 16, f"{x:,g}", anchor="middle") for x in places]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, panel.x, anchor="middle"))
    for number, (name, points) in enumerate(panel.series.items()):
        color = COLORS[number % len(COLORS)]
        line = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="3" fill="{color}"/>' for x, y in points]
        parts.append(_text(LEFT + 90 * number, 48, name, color=color, weight="bold"))
    return "".join(parts)


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal", color: str = "#333") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" fill="{color}">'
        f"{escape(text)}</text>"
    )
