"""The tree of tensors as a list whose rows open and close."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from textual.message import Message

from gputui.explain.tensors.tree import Row
from gputui.explain.tensors.view import TensorView
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.attach.tensors import tensor_columns
from gputui.ui.drawing.columns import TableLayout, draw_row, draw_titles, lay_out
from gputui.ui.drawing.line import Line
from gputui.ui.widgets.listing import Listing


class TensorList(Listing[Row]):
    """The rows of a `TensorView`; only those that are visible are drawn."""

    class Moved(Message):
        """The cursor is on another row, or its row has changed."""

    class Turned(Message):
        """The user opens or closes a row."""

        def __init__(self, row: Row, *, is_open: bool) -> None:
            super().__init__()
            self.row = row
            self.is_open = is_open

    def __init__(self, appearance: Appearance, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._appearance = appearance
        self._view = TensorView()
        self._layout: TableLayout[Row] = ()
        self._last: Row | None = None

    def set_view(self, view: TensorView) -> None:
        """Show the visible rows of a view; the same rows again cost nothing."""
        self._view = view
        if view.tree.rows is self.entries:
            self.redraw()
        else:
            self.set_entries(view.tree.rows)

    @property
    def why_empty(self) -> str:
        """Why there are no rows: a filter, no tensors, or a tree that is still being built."""
        if not self._view.is_current:
            return "Sorting the tensors ..."
        return (
            "No tensor matches the filter: Esc clears it." if self._view.filter_text else "No tensors on this device."
        )

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """The visible rows, in the columns that there is room for."""
        columns = tensor_columns(
            self._view.tree.allocated_bytes, self._view.tree.request.grouping, width, self._appearance
        )
        self._layout = lay_out(columns, width)
        return super().draw(width, height)

    def redraw(self) -> None:
        """Draw, and report where the cursor is now."""
        super().redraw()
        if self.current is not self._last:
            self._last = self.current
            self.post_message(self.Moved())

    def key_of(self, entry: Row) -> Hashable:
        return entry.node.key

    def draw_head(self, width: int) -> Line:  # noqa: ARG002 - laid out already
        """Column titles, the sorted one marked."""
        mark = self._appearance.glyphs.up if self._view.tree.request.is_reversed else self._appearance.glyphs.down
        return draw_titles(self._layout, self._view.tree.request.order, mark)

    def draw_entry(self, entry: Row, width: int) -> Line:  # noqa: ARG002 - laid out already
        """A row of the tree."""
        return draw_row(self._layout, entry, self._appearance.glyphs.ellipsis)

    def open(self) -> None:
        """Open a closed row; from an open one go to the first row below it."""
        row = self.current
        if row is None or not row.node.children:
            return
        if row.is_open:
            self.action_move(1)
        else:
            self.post_message(self.Turned(row, is_open=True))

    def close(self) -> None:
        """Close an open row; from a closed one go to its parent."""
        row = self.current
        if row is None:
            return
        if row.is_open:
            self.post_message(self.Turned(row, is_open=False))
        else:
            self.action_move(-self._steps_to_parent(row))

    def _steps_to_parent(self, row: Row) -> int:
        above = reversed(self.entries[: self._cursor])
        return next((steps for steps, other in enumerate(above, 1) if other.depth < row.depth), 0)
