"""The process table of the overview."""

from __future__ import annotations

from gputui.model.machine.process import Identity
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.columns import draw_sorted_titles
from gputui.ui.drawing.line import Line
from gputui.ui.drawing.monitor.process_rows import PROCESS_ORDER_BY_NAME, ProcessRow, View
from gputui.ui.drawing.monitor.processes import PROCESS_COLUMN_BY_NAME
from gputui.ui.widgets.table import Table


class ProcessTable(Table[ProcessRow]):
    """A line for every process on a device; the head shows the column that sorts them, and how many there are."""

    def __init__(self, appearance: Appearance, columns: tuple[str, ...], *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        shown = (PROCESS_COLUMN_BY_NAME[name] for name in columns)
        super().__init__(shown, lambda row: row.key, ellipsis=appearance.glyphs.ellipsis, id=id)
        self._appearance = appearance
        self._view = View()
        self._tagged: frozenset[Identity] = frozenset()

    def set_view(self, view: View, tagged: frozenset[Identity]) -> None:
        """Set the order that the head shows, and which rows are tagged; drawn with the next entries."""
        self._view, self._tagged = view, tagged
        self.empty = "No process matches the filter: Esc clears it." if view.filter_text else "No process to show."

    def draw_head(self, width: int) -> Line:
        """Column titles, the sorted one marked."""
        order = PROCESS_ORDER_BY_NAME[self._view.order]
        glyphs, is_reversed = self._appearance.glyphs, self._view.is_reversed
        return draw_sorted_titles(self.layout_for(width), order, glyphs, is_reversed=is_reversed)

    def draw_entry(self, entry: ProcessRow, width: int) -> Line:
        """A row of the table, with a mark at the left where it is tagged."""
        line = super().draw_entry(entry, width)
        if entry.identity not in self._tagged or not line[0][0].startswith(" "):
            return line
        (text, role), *rest = line
        return ((self._appearance.glyphs.tag + text[1:], role), *rest)

    def role_of(self, entry: ProcessRow) -> str:
        """Tagged rows stand out as a whole."""
        return "tagged" if entry.identity in self._tagged else ""
