"""Tables: which columns fit into a width, how wide they are, how a row of them is drawn, and how rows are sorted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from rich.cells import cell_len

from gputui.model.reading import Reading, value_of
from gputui.ui.drawing.line import Line, Piece, fit, join, text_of
from gputui.ui.drawing.meters import Glyphs

T = TypeVar("T")


class Column(Generic[T]):
    """One column as data.

    `text` returns one piece for the cell, which is then fitted and aligned; or `draw` returns pieces that fill its
    width argument exactly. The column is shown from a table width of `from_width` on; where there is no room for all,
    columns with `is_kept` are dropped last. `is_worth` says whether a column has anything to say about
    these rows; without it, it always has. Spare cells go to columns with `grow`, in proportion, up to `most` each.
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
        is_kept: bool = False,  # noqa: FBT001 - called with keywords
        is_worth: Callable[[Iterable[T]], bool] | None = None,
    ) -> None:
        self.name, self.title, self.width = name, title, width
        self.text, self.draw, self.align = text, draw, align
        self.from_width, self.grow, self.most, self.is_kept = from_width, grow, most, is_kept
        self.is_worth = is_worth


TableLayout = tuple[tuple[Column[T], int], ...]
"""The columns that fit, with their widths; there is one cell between two columns."""


def worth_showing(columns: Iterable[Column[T]], rows: Sequence[T]) -> tuple[Column[T], ...]:
    """The columns that have something to say about these rows."""
    return tuple(column for column in columns if column.is_worth is None or column.is_worth(rows))


def lay_out(columns: Iterable[Column[T]], width: int, spare: int = 0) -> TableLayout[T]:
    """Choose the columns of a table of `width` cells; columns that do not fit are dropped from the right.

    Columns leave the last `spare` cells free where they can do so without being dropped.
    """
    chosen = [column for column in columns if column.from_width <= width]
    while len(chosen) > 1 and _width_of(chosen) > width:
        chosen.remove(next((column for column in reversed(chosen) if not column.is_kept), chosen[-1]))
    widths = [column.width for column in chosen]
    left = width - _width_of(chosen) - spare
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


def draw_sorted_titles(layout: TableLayout[T], order: Order, glyphs: Glyphs, *, is_reversed: bool) -> Line:
    """The titles; that of the order's column has an arrow: up if the smallest is first, down if the largest is."""
    return draw_titles(layout, order.name, glyphs.down if order.is_descending != is_reversed else glyphs.up)


def place_width(count: int, rows: int) -> int:
    """How many cells `mark_place` needs at the end of the head."""
    return len(f" {count}/{count}") if count > rows else 0


def mark_place(head: Line, cursor: int, count: int, rows: int, width: int) -> Line:
    """The head of a list of `count` entries; where only `rows` are visible, with the cursor's place behind the titles.

    Where the titles leave no room for the place, an arrow says that there is more.
    """
    if count <= rows:
        return head
    titles = text_of((head,))
    room = width - cell_len(titles)
    place = next((form for form in (f" {cursor + 1}/{count}", " ↕", "↕") if len(form) <= room), "")
    return ((fit(titles, width - len(place), ellipsis="") + place, "head"),)


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


class Order(NamedTuple):
    """One way to sort: the letter after `o`, the words in the menu, and the value of a row.

    Its name is that of the column that it sorts by.
    """

    name: str
    letter: str
    title: str
    value: Callable[[Any], tuple[object, ...]]
    is_descending: bool = False


def number(reading: Reading[float]) -> tuple[object, ...]:
    """The value of a reading: what is absent is less than any number."""
    value = value_of(reading)
    return (value is not None, value or 0)


def in_order(rows: Iterable[T], order: Order, *, is_reversed: bool) -> list[T]:
    """The rows, sorted; equal rows keep their order."""
    return sorted(rows, key=order.value, reverse=order.is_descending != is_reversed)
