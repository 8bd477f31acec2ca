"""The Memory screen's timeline: the counters over time, with what each step needs and leaves."""

from __future__ import annotations

from collections.abc import Sequence

from gputui.explain.memory.need import moves
from gputui.model.attached.counters import Counted, Counters
from gputui.model.attached.target import Mark
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.line import Line, Piece, fit, join
from gputui.units import format_bytes, format_clock

FILLS: dict[bool, tuple[Piece, ...]] = {
    False: (("█", "part-allocated"), ("▒", "part-allocated"), ("▓", "part-pending"), ("░", "part-cached")),
    True: (("#", "part-allocated"), ("=", "part-allocated"), ("%", "part-pending"), (":", "part-cached")),
}
"""By is_ascii: what each step leaves, what it needs at its top, what waits for another stream, what is reserved."""
STEP_COLUMNS = 8
"""The timeline moves by this many columns at once: if it moved with every point, nearly all cells would be sent."""
TOP_S = 4 * 3600.0
"""The axis reaches to the highest level of these seconds, or of what is drawn if that is longer, to keep its scale."""


class Axis:
    """The counters in every column of the timeline: the newest at the right, `span_s` seconds to a column."""

    def __init__(self, counters: Counters, width: int, span_s: float, end: float) -> None:
        step = max(1, min(STEP_COLUMNS, width // STEP_COLUMNS))
        self._first = -(-(int(end / span_s) + 1) // step) * step - width
        self.span_s = span_s
        self.columns = counters.per_cell(self._first, width, span_s)
        self.has_steps = any(column and column.swing and moves(column.swing) for column in self.columns)
        """Whether steps were watched somewhere, so that there is a band between what they need and what they leave."""
        self.top_bytes = counters.highest_reserved_bytes(min(self._first * span_s, end - TOP_S))
        """The highest reserved memory: the top of the axis."""

    def column_of(self, moment: float) -> int:
        """The column of a time; outside 0..width-1 if it is not on the axis."""
        return int(moment / self.span_s) - self._first


def draw_title(axis: Axis, cursor: float | None, width: int, appearance: Appearance) -> Line:
    """What the areas are, the bytes at the top of the axis, and the seconds per cell."""
    at = "" if cursor is None else f"  cursor at {format_clock(cursor)}"
    words = "Reserved, active, allocated"
    if axis.has_steps:
        left, within, _, cached = FILLS[appearance.is_ascii]
        words = f"{left[0]} left after a step, {within[0]} within it, {cached[0]} cached"
    text = f" {words}; top {format_bytes(axis.top_bytes)}, {axis.span_s:g} s per cell{at}"
    return join(((fit(text, width), "title"),))


def draw_timeline(
    axis: Axis, height: int, cursor: float | None, marks: Sequence[Mark], appearance: Appearance
) -> list[Line]:
    """Allocated, active and reserved as areas in front of each other, with events, marks and the cursor below.

    Where steps were watched, what is left after each and what it needs at its top take the place of allocated.
    """
    levels = [_levels(counted, axis.top_bytes, height * 8) for counted in axis.columns]
    at = axis.column_of(cursor) if cursor is not None else -1
    lines = [_row(levels, row, at, appearance) for row in range(height - 1, -1, -1)]
    return [*lines, _events(axis, at, marks)]


def _levels(counted: Counted | None, top: int, steps: int) -> tuple[int, ...] | None:
    if counted is None or not top:
        return None
    statistics, swing = counted.statistics, counted.swing
    lowest = highest = statistics.allocated_bytes
    if swing and moves(swing):
        lowest, highest = swing.lowest_allocated_bytes, max(highest, swing.highest_allocated_bytes)
    values = (lowest, highest, statistics.active_bytes, statistics.reserved_bytes)
    return tuple(min(steps, round(steps * value / top)) for value in values)


def _row(levels: Sequence[tuple[int, ...] | None], row: int, cursor: int, appearance: Appearance) -> Line:
    base = row * 8
    fills = FILLS[appearance.is_ascii]
    pieces: list[Piece] = []
    for column, level in enumerate(levels):
        piece: Piece = (" ", "plain")
        if level is not None:
            piece = next((fill for fill, value in zip(fills, level, strict=True) if value > base + 3), piece)
        pieces.append((piece[0], "cursor") if column == cursor else piece)
    return join(pieces)


def _events(axis: Axis, cursor: int, marks: Sequence[Mark]) -> Line:
    """One cell per column: "!" an out-of-memory error, "r" a retry, "m" a mark set by the program or a viewer."""
    width = len(axis.columns)
    cells: list[Piece] = [(" ", "plain")] * width
    before: tuple[int, int] | None = None
    for column, counted in enumerate(axis.columns):
        if counted is None:
            continue
        now = (counted.statistics.num_ooms, counted.statistics.num_alloc_retries)
        if before is not None and now != before:
            cells[column] = ("!", "poor") if now[0] > before[0] else ("r", "fair")
        before = now
    for mark in marks:
        column = axis.column_of(mark.time)
        if 0 <= column < width:
            cells[column] = ("m", "accent")
    if 0 <= cursor < width:
        cells[cursor] = ("^", "cursor")
    return join(cells)
