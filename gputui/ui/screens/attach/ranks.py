"""The Ranks screen: all attached processes, for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from gputui.explain.ranks.memory import Rank, ranks_of
from gputui.ui.bindings import COLLECTIVES_BINDING
from gputui.ui.drawing.attach.ranks import RANK_COLUMNS, RankRow, draw_odd, rows_of
from gputui.ui.drawing.line import Line
from gputui.ui.screens.attach.base import AttachScreen
from gputui.ui.screens.collectives import ask_collectives
from gputui.ui.widgets.listing import Listing
from gputui.ui.widgets.painted import Notes
from gputui.ui.widgets.table import Table

NO_PROCESS = "No process is attached: open one on the overview with Enter, then press a."


def _key(row: RankRow) -> tuple[int, int]:
    return row.rank.moment.pid, row.rank.device.index


class RanksScreen(AttachScreen):
    """Enter opens the process under the cursor."""

    NAME = "ranks"

    BINDINGS: ClassVar[list[BindingType]] = [COLLECTIVES_BINDING]

    def __init__(self) -> None:
        super().__init__()
        self._ranks: Sequence[Rank] = ()

    def compose_body(self) -> ComposeResult:
        """Sentences about odd ranks, and the list."""
        yield Notes(self._draw_odd, id="odd")
        yield Table(RANK_COLUMNS, _key, empty=NO_PROCESS, id="ranks")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A process in a recording, or on another machine, is not asked."""
        if action == "collectives":
            return self.monitor.attached.inquirer is not None
        return super().check_action(action, parameters)

    def action_collectives(self) -> None:
        """Ask NCCL in the process under the cursor, after a question."""
        row: RankRow | None = self.query_one("#ranks", Table).current
        ask_collectives(self, (row.rank.moment.pid,) if row else ())

    def draw(self) -> None:
        """Draw the newest moment of every rank."""
        moments = [target.timeline.latest for target in self.monitor.attached.targets.all]
        self._ranks = ranks_of([moment for moment in moments if moment])
        self.query_one("#odd", Notes).redraw()
        self.query_one("#ranks", Table).set_entries(rows_of(self._ranks))

    def _draw_odd(self, width: int) -> list[Line]:
        targets = {target.feed.pid: target for target in self.monitor.attached.targets.all}
        holders = {
            (rank.moment.pid, rank.device.index): targets[rank.moment.pid].holders(rank.moment, rank.device)
            for rank in self._ranks
            if rank.device.layout and rank.moment.pid in targets
        }
        return draw_odd(self._ranks, width, holders)

    @on(Listing.Chosen)
    def _chosen(self, message: Listing.Chosen) -> None:
        if isinstance(message.entry, RankRow):
            self.monitor.attached.targets.select(message.entry.rank.moment.pid)
            self.monitor.show_attach_screen("memory")
