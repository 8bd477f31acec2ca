"""Graphs of history side by side: a title with the present value above an area between two axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.line import Line, Piece, fit, join
from gputui.ui.drawing.meters import area

NARROWEST = 34
HIGHEST = 16
"""Lines of an area at most: more show nothing more."""
GAP = 2
AXIS = 6
"""Cells left of an area: the value at its top, and 0 at its bottom."""


@dataclass(frozen=True, slots=True)
class Graph:
    """One graph: `points` are in the unit of `top`, oldest first.

    `shown` is the present value as text, `top_shown` the value of `top` in at most five cells.
    """

    title: str
    shown: str
    points: Sequence[float | None]
    top: float
    role: str = "good"
    top_shown: str = ""


def graphs_abreast(width: int, count: int) -> int:
    """How many graphs stand side by side in `width` cells."""
    return max(1, min(count, (width + GAP) // (NARROWEST + GAP)))


def graph_width(width: int, count: int) -> int:
    """Cells of one graph where `count` share `width`."""
    abreast = graphs_abreast(width, count)
    return (width - GAP * (abreast - 1)) // abreast


def points_across(width: int, count: int) -> int:
    """How many points of history a graph shows where `count` share `width`."""
    return max(1, graph_width(width, count) - AXIS)


def area_height(width: int, count: int, lines: int) -> int:
    """The height of each area where a grid of `count` graphs has `lines` lines."""
    rows = -(-count // graphs_abreast(width, count)) if count else 1
    return max(2, min(HIGHEST, lines // rows - 2))


def draw_graphs(
    graphs: Sequence[Graph],
    width: int,
    height: int,
    span_s: float,
    appearance: Appearance,
    *,
    ends: tuple[str, str] | None = None,
) -> list[Line]:
    """A grid of graphs, each with a title, an area of `height` lines and an axis of time, `span_s` a point.

    `ends` are words for the two ends of the axis where the right one is not now.
    """
    if not graphs:
        return []
    abreast = graphs_abreast(width, len(graphs))
    cells = graph_width(width, len(graphs))
    lines: list[Line] = []
    for start in range(0, len(graphs), abreast):
        band = graphs[start : start + abreast]
        lines.append(_beside([_title(graph, cells, appearance) for graph in band]))
        bodies = [_body(graph, cells, height, appearance) for graph in band]
        lines += [_beside([body[row] for body in bodies]) for row in range(height)]
        lines.append(_beside([_times(cells, span_s, ends) for _ in band]))
    return lines


def _beside(parts: Sequence[Line]) -> Line:
    pieces: list[Piece] = []
    for part in parts:
        pieces += [(" " * GAP, "plain")] * bool(pieces) + list(part)
    return join(pieces)


def _title(graph: Graph, width: int, appearance: Appearance) -> Line:
    rule = appearance.glyphs.rule * max(0, width - len(graph.title) - len(graph.shown) - 2)
    text = fit(f"{graph.title} ", min(width, len(graph.title) + 1))
    return join(((text, "title"), (rule, "dim"), (fit(f" {graph.shown}", width - len(text) - len(rule), ">"), "plain")))


def _body(graph: Graph, width: int, height: int, appearance: Appearance) -> list[Line]:
    top, room = graph.top or 1.0, max(1, width - AXIS)
    fractions = [None if point is None else point / top for point in graph.points[-room:]]
    has_values = any(fraction is not None for fraction in fractions)
    values = [graph.top_shown, *[""] * (height - 2), "0"][:height] if has_values else [""] * height
    areas = area(fractions, height, appearance.glyphs)
    return [
        ((fit(f"{value:>{AXIS - 1}} ", AXIS), "dim"), (fit(text, room, ">"), graph.role))
        for value, text in zip(values, areas, strict=True)
    ]


def _times(width: int, span_s: float, ends: tuple[str, str] | None) -> Line:
    """The axis of time: how long ago the area begins, and how long a point is."""
    room = max(1, width - AXIS)
    left, right = ends or (f"{_ago(room * span_s)} ago, {span_s:g} s per cell", " now")
    if not ends and len(left) + len(right) > room:
        left = f"{_ago(room * span_s)} ago"
    return ((fit(" " * AXIS + fit(left, max(1, room - len(right))) + right, width), "dim"),)


def _ago(seconds: float) -> str:
    for unit_s, unit in ((3600, "h"), (60, "min")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{seconds:.0f} s"
