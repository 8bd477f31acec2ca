"""A list in columns: its head shows the column that sorts it, and a click on a title sorts by that column."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from textual.message import Message

from gputui.ui.drawing.columns import Column, TableLayout, column_at, draw_row, lay_out, worth_showing
from gputui.ui.drawing.line import Line
from gputui.ui.widgets.listing import Listing

R = TypeVar("R")


class SortedTable(Listing[R], Generic[R]):
    """Columns that have nothing to say about any row are left out."""

    class HeadClicked(Message):
        """A column's title was clicked."""

        def __init__(self, column: str) -> None:
            super().__init__()
            self.column = column

    def __init__(self, columns: Iterable[Column[R]], ellipsis: str, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._columns = self._shown = tuple(columns)
        self._ellipsis = ellipsis
        self._laid_out_for: tuple[int, tuple[Column[R], ...]] = (0, ())
        self._present_layout: TableLayout[R] = ()

    def set_entries(self, entries: tuple[R, ...]) -> None:
        """Replace the rows."""
        self._shown = worth_showing(self._columns, entries)
        super().set_entries(entries)

    def draw_entry(self, entry: R, width: int) -> Line:
        """A row of the table."""
        return draw_row(self.layout_for(width), entry, self._ellipsis)

    def head_clicked(self, x: int) -> None:
        """Report which column's title was clicked."""
        column = column_at(self.layout_for(self.size.width), x)
        if column:
            self.post_message(self.HeadClicked(column))

    def layout_for(self, width: int) -> TableLayout[R]:
        """The columns and their widths."""
        if self._laid_out_for != (width, self._shown):
            self._laid_out_for, self._present_layout = (width, self._shown), lay_out(self._shown, width)
        return self._present_layout
