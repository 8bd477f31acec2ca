"""A list in columns: its head shows the column that sorts it, and a click on a title sorts by that column."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from textual.message import Message

from gputui.ui.drawing.columns import Column, TableLayout, column_at, draw_row, draw_titles, lay_out, worth_showing
from gputui.ui.drawing.line import Line
from gputui.ui.widgets.listing import Listing

R = TypeVar("R")


class Table(Listing[R], Generic[R]):
    """Rows in columns; columns that have nothing to say about any row are left out.

    `key` identifies the same row in the next list, `empty` is the sentence in a table without rows. `leaves_room`: the
    columns leave the end of the head free where the cursor's place needs it.
    """

    class HeadClicked(Message):
        """A column's title was clicked."""

        def __init__(self, column: str) -> None:
            super().__init__()
            self.column = column

    def __init__(
        self,
        columns: Iterable[Column[R]],
        key: Callable[[R], Hashable],
        *,
        ellipsis: str = "…",
        empty: str = "",
        leaves_room: bool = False,
        id: str | None = None,  # noqa: A002 - Textual's name
    ) -> None:
        super().__init__(id=id)
        self._columns = self._shown = tuple(columns)
        self._key, self._ellipsis, self.empty, self._leaves_room = key, ellipsis, empty, leaves_room
        self._laid_out_for: tuple[int, int, tuple[Column[R], ...]] = (0, 0, ())
        self._present_layout: TableLayout[R] = ()

    @property
    def why_empty(self) -> str:
        return self.empty

    def key_of(self, entry: R) -> Hashable:
        return self._key(entry)

    def set_entries(self, entries: tuple[R, ...]) -> None:
        """Replace the rows."""
        self._shown = worth_showing(self._columns, entries)
        super().set_entries(entries)

    def draw_head(self, width: int) -> Line:
        return draw_titles(self.layout_for(width))

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
        wanted = (width, self.spare if self._leaves_room else 0, self._shown)
        if self._laid_out_for != wanted:
            self._laid_out_for, self._present_layout = wanted, lay_out(self._shown, width, wanted[1])
        return self._present_layout
