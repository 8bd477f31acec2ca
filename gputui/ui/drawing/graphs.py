"""Graphs of history side by side: a title with the present value above an area."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.line import Line, Piece, fit, join
from gputui.ui.drawing.meters import area

NARROWEST = 34
GAP = 2


@dataclass(frozen=True, slots=True)
class Graph:
    """One graph: `points` are in the unit of `top`, oldest first; `shown` is the present value as text."""

    title: str
    shown: str
    points: Sequence[float | None]
    top: float
    role: str = "good"


def graphs_abreast(width: int, count: int) -> int:
    """How many graphs stand side by side in `width` cells."""
    return max(1, min(count, (width + GAP) // (NARROWEST + GAP)))


def graph_width(width: int, count: int) -> int:
    """Cells of one graph where `count` share `width`."""
    abreast = graphs_abreast(width, count)
    return (width - GAP * (abreast - 1)) // abreast


def draw_graphs(graphs: Sequence[Graph], width: int, height: int, appearance: Appearance) -> list[Line]:
    """A grid of graphs; below a title, each has `height` lines."""
    abreast = graphs_abreast(width, len(graphs))
    cells = graph_width(width, len(graphs))
    lines: list[Line] = []
    for start in range(0, len(graphs), abreast):
        band = graphs[start : start + abreast]
        lines.append(_beside([_title(graph, cells, appearance) for graph in band]))
        bodies = [_body(graph, cells, height, appearance) for graph in band]
        lines += [_beside([body[row] for body in bodies]) for row in range(height)]
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
    top = graph.top or 1.0
    fractions = [None if point is None else point / top for point in graph.points[-width:]]
    return [((fit(text, width, ">"), graph.role),) for text in area(fractions, height, appearance.glyphs)]
