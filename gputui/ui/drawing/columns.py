"""Tables: which columns fit into a width, how wide they are, and how a row of them is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from gputui.ui.drawing.line import Line, Piece, fit, join, text_of

T = TypeVar("T")


class Column(Generic[T]):
    """One column as data.

    `text` returns one piece for the cell, which is then fitted and aligned; or `draw` returns pieces that fill its
    width argument exactly. The column is shown from a table width of `from_width` on. Spare cells go to columns with
    `grow`, in proportion, up to `most` cells each.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - called with keywords
        self,
        name: str,
        title: str,
        width: int,
        text: Callable[[T], Piece] | None = None,
        draw: Callable[[T, int], Sequence[Piece]] | None = None,
        align: str = "<",
        from_width: int = 0,
        grow: int = 0,
        most: int = 1000,
    ) -> None:
        self.name, self.title, self.width = name, title, width
        self.text, self.draw, self.align = text, draw, align
        self.from_width, self.grow, self.most = from_width, grow, most


TableLayout = tuple[tuple[Column[T], int], ...]
"""The columns that fit, with their widths; there is one cell between two columns."""


def lay_out(columns: Iterable[Column[T]], width: int) -> TableLayout[T]:
    """Choose the columns of a table of `width` cells; columns that do not fit are dropped from the right."""
    chosen = [column for column in columns if column.from_width <= width]
    while len(chosen) > 1 and _width_of(chosen) > width:
        chosen.pop()
    widths = [column.width for column in chosen]
    left = width - _width_of(chosen)
    growing = [index for index, column in enumerate(chosen) if column.grow]
    while left > 0 and growing:
        weights = sum(chosen[index].grow for index in growing)
        for index in list(growing):
            share = max(1, left * chosen[index].grow // weights)
            share = min(share, left, chosen[index].most - widths[index])
            widths[index] += share
            left -= share
            if widths[index] >= chosen[index].most:
                growing.remove(index)
    return tuple(zip(chosen, widths, strict=True))


def draw_row(layout: TableLayout[T], item: T, ellipsis: str = "…") -> Line:
    """One item, a cell for each column of the layout."""
    pieces: list[Piece] = []
    for column, width in layout:
        if column.text is not None:
            text, role = column.text(item)
            pieces.append((fit(text, width, column.align, ellipsis), role))
        elif column.draw is not None:
            pieces.extend(column.draw(item, width))
        pieces.append((" ", "plain"))
    return join(pieces[:-1])


def draw_titles(layout: TableLayout[T], marked: str = "", mark: str = "") -> Line:
    """The titles; `mark` stands behind that of the column named `marked`, by which the rows are sorted."""
    titles = []
    for column, width in layout:
        title = f"{column.title}{mark}" if column.name == marked else column.title
        titles.append(fit(title, width, column.align, "")[:width])
    return ((" ".join(titles), "head"),)


def mark_place(head: Line, cursor: int, count: int, rows: int, width: int) -> Line:
    """The head of a list of `count` entries; with the cursor's place at its end where only `rows` are visible."""
    if count <= rows:
        return head
    place = f" {cursor + 1}/{count}"
    return ((fit(text_of((head,)), width - len(place), ellipsis="") + place, "head"),)


def column_at(layout: TableLayout[T], x: int) -> str | None:
    """The name of the column under cell `x`, None beyond the last."""
    left = 0
    for column, width in layout:
        if left <= x < left + width + 1:
            return column.name
        left += width + 1
    return None


def _width_of(columns: Sequence[Column[T]]) -> int:
    return sum(column.width for column in columns) + len(columns) - 1
