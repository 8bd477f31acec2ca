"""The sections about an out-of-memory error, one below the other on the Why screen."""

from __future__ import annotations

from gputui.explain.failure.sections import Row, Section, Table
from gputui.model.weight import Weight
from gputui.ui.drawing.attach.why import shown_on
from gputui.ui.drawing.entries import LOOKS, draw_entry
from gputui.ui.drawing.line import Line, Piece, fit, indented, spread

MARGIN = "     "
SIZE_CELLS = 10
WIDE_SIZE_CELLS = 14
"""Cells of a size with "up to" in front."""
MARK_CELLS = 11


def draw_section(section: Section, width: int, *, is_current: bool = False, destination: str = "") -> list[Line]:
    """A section and an empty line; the current one has the cursor, and names the screen that Enter opens."""
    lines = draw_entry(
        LOOKS[Weight.PROBLEM if section.is_problem else Weight.FACT],
        section.title,
        width,
        sentences=section.sentences,
        below=[line for table in section.tables for line in _table(table, width)],
        is_current=is_current,
        enter=shown_on(destination),
    )
    return [*lines, ()]


def _table(table: Table, width: int) -> list[Line]:
    lines: list[Line] = [((f"{MARGIN}{table.heading}", "title"),)] if table.heading else []
    for row in table.rows:
        lines += _wrapped(row, width) if table.is_wrapped else [_row(row, width)]
    return lines


def _row(row: Row, width: int) -> Line:
    """Size, share and name; the note at the right end, where there is room for it."""
    lead = f"{MARGIN}{row.size:>{SIZE_CELLS}} {row.mark:>5}  "
    name = fit(row.text, max(8, width - len(lead))).rstrip()
    left: list[Piece] = [(lead, "plain"), (name, "title")]
    return spread(left, [(f"  {row.note} ", "dim")], width)


def _wrapped(row: Row, width: int) -> list[Line]:
    """Size, whether it is enough, and what to do, on as many lines as that takes."""
    lead = f" {row.size:>{WIDE_SIZE_CELLS}}  {row.mark:<{MARK_CELLS}}"
    return indented(row.text, width, lead, "good" if row.is_good else "plain")
