"""The process table of the overview."""

from __future__ import annotations

from collections.abc import Hashable

from gputui.model.machine.process import Identity
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.line import Line
from gputui.ui.drawing.monitor.process_rows import ProcessRow, View
from gputui.ui.drawing.monitor.processes import PROCESS_COLUMN_BY_NAME, draw_process_head
from gputui.ui.widgets.sorted_table import SortedTable


class ProcessTable(SortedTable[ProcessRow]):
    """A line for every process on a device; the head shows the column that sorts them, and how many there are."""

    EMPTY = "No process to show."

    def __init__(self, appearance: Appearance, columns: tuple[str, ...], *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__((PROCESS_COLUMN_BY_NAME[name] for name in columns), appearance.glyphs.ellipsis, id=id)
        self._appearance = appearance
        self._view = View()
        self._tagged: frozenset[Identity] = frozenset()

    def set_view(self, view: View, tagged: frozenset[Identity]) -> None:
        """Set the order that the head shows, and which rows are tagged; drawn with the next entries."""
        self._view, self._tagged = view, tagged

    @property
    def why_empty(self) -> str:
        """With a filter, how to clear it."""
        return "No process matches the filter: Esc clears it." if self._view.filter_text else self.EMPTY

    def key_of(self, entry: ProcessRow) -> Hashable:
        return entry.key

    def draw_head(self, width: int) -> Line:
        """Column titles, the sorted one marked."""
        return draw_process_head(self.layout_for(width), self._view, self._appearance)

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
