"""The Ranks screen: all attached processes beside each other."""

from __future__ import annotations

from collections.abc import Hashable

from textual import on
from textual.app import ComposeResult

from gputui.explain.drivers import utilization_of
from gputui.ui.drawing.attach.ranks import COLUMNS, RankRow, odd_columns
from gputui.ui.drawing.columns import draw_head, draw_row, lay_out
from gputui.ui.drawing.line import Line
from gputui.ui.screens.attach.base import AttachScreen
from gputui.ui.widgets.listing import Listing


class RankList(Listing[RankRow]):
    """One line a process and device."""

    EMPTY = "No process is attached."

    def key_of(self, entry: RankRow) -> Hashable:
        """PID and device."""
        return (entry.moment.pid, entry.device.index)

    def draw_head(self, width: int) -> Line:
        """Column titles."""
        return draw_head(lay_out(COLUMNS, width))

    def draw_entry(self, entry: RankRow, width: int) -> Line:
        """A rank."""
        return draw_row(lay_out(COLUMNS, width), entry)


class RanksScreen(AttachScreen):
    """Enter looks at the process under the cursor."""

    NAME = "ranks"

    def compose_body(self) -> ComposeResult:
        """One list."""
        yield RankList(id="ranks")

    def draw(self) -> None:
        """Draw all ranks."""
        moments = [target.timeline.latest for target in self.monitor.targets.all]
        pairs = [(moment, device) for moment in moments if moment for device in moment.devices]
        devices = [device for _, device in pairs]
        rows = [
            RankRow(
                moment,
                device,
                utilization_of(moment.greeting, self.monitor.snapshot.devices, device.index),
                odd_columns(device, devices),
            )
            for moment, device in pairs
        ]
        rows.sort(key=lambda row: (row.moment.greeting.rank is None, row.moment.greeting.rank or 0, row.device.index))
        self.query_one(RankList).set_entries(tuple(rows))

    @on(Listing.Chosen)
    def _chosen(self, message: Listing.Chosen) -> None:
        if isinstance(message.entry, RankRow):
            self.monitor.targets.select(message.entry.moment.pid)
            self.monitor.show_attach_screen("memory")
