"""The table of many machines."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from textual.message import Message

from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.fleet.columns import FLEET_COLUMNS, draw_fleet_head, draw_fleet_row
from gputui.ui.drawing.fleet.rows import FleetRow, FleetView
from gputui.ui.drawing.line import Line
from gputui.ui.widgets.table import Table


class FleetTable(Table[FleetRow]):
    """A line for every cluster, node, GPU, process or job that is not folded away."""

    class Scrolled(Message):
        """Other rows are on screen."""

    def __init__(self, appearance: Appearance, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(FLEET_COLUMNS, lambda row: row.key, ellipsis=appearance.glyphs.ellipsis, id=id)
        self._appearance = appearance
        self._view = FleetView()
        self._was_visible: tuple[Hashable, ...] = ()

    def set_view(self, view: FleetView, why_none: str) -> None:
        """Set the order that the head shows, and what a table without rows says."""
        self._view = view
        self.empty = "Nothing matches the filter: Esc clears it." if view.filter_text else why_none

    def draw_head(self, width: int) -> Line:
        """Column titles, the sorted one marked."""
        return draw_fleet_head(self.layout_for(width), self._view, self._appearance)

    def draw_entry(self, entry: FleetRow, width: int) -> Line:
        """A row of the table."""
        return draw_fleet_row(self.layout_for(width), entry, width)

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """Draw as any list does, and report when other rows are on screen: only these are asked for in detail."""
        lines = super().draw(width, height)
        visible = tuple(row.key for row in self.on_screen)
        if visible != self._was_visible:
            self._was_visible = visible
            self.post_message(self.Scrolled())
        return lines
