"""The screen of many machines: one table whose groups fold, and what stands above it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputui.explain.fleet.missing import NOBODY
from gputui.model.fleet.attention import FleetAttention
from gputui.model.fleet.exporters import Exporter
from gputui.model.fleet.fleet import Fleet
from gputui.model.fleet.parts import Holding, Place
from gputui.model.machine.snapshot import Attention
from gputui.model.nodes import can_be_node
from gputui.ui.bindings import FINDINGS_BINDING
from gputui.ui.drawing.fleet.columns import FLEET_COLUMNS
from gputui.ui.drawing.fleet.fields import FLEET_FIELDS
from gputui.ui.drawing.fleet.head import draw_fleet_notes
from gputui.ui.drawing.fleet.rows import FLEET_ORDERS, FleetRow, FleetView, RowKind
from gputui.ui.drawing.fleet.tree import fleet_rows
from gputui.ui.drawing.line import Line
from gputui.ui.screens.fleet.visit import visit, visit_words
from gputui.ui.screens.table import TableScreen
from gputui.ui.widgets.filter_line import FilterLine
from gputui.ui.widgets.fleet_table import FleetTable
from gputui.ui.widgets.listing import Listing
from gputui.ui.widgets.painted import Notes

HISTORY_FROM_WIDTH = next(column.from_width for column in FLEET_COLUMNS if column.name == "history")
FOLDS = (RowKind.CLUSTER, RowKind.NODE, RowKind.JOB)
NO_JOBS = "There are no jobs: gputui export, which tells of them, runs on no node, or no process has a job."
NO_JOBS_HERE = "There are no jobs: no process on a GPU has one that gputui may see."
NO_NODES = "There is no node with a GPU."


class FleetScreen(TableScreen):
    """Clusters, nodes, GPUs and processes, or jobs with their processes."""

    KEY_GROUPS: ClassVar[dict[str, str]] = {"fleet": "Many machines"}

    ORDERS = FLEET_ORDERS
    FIELDS = FLEET_FIELDS
    NO_VALUE = "Nothing here has a value for {}: processes are known once their node is open."

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "enter", "open", "Open", id="list.open", tooltip="run gputui on the node, attach to the process, or fold"
        ),
        Binding(
            "space,right",
            "fold",
            "Fold",
            key_display="space",
            id="fleet.fold",
            tooltip="show what is below, or hide it",
        ),
        Binding(
            "left", "close", "Close", show=False, id="fleet.close", tooltip="hide what is here, or below the line above"
        ),
        Binding("t", "jobs", "Jobs", id="fleet.jobs", tooltip="jobs with their processes, or nodes with their GPUs"),
        Binding(
            "a",
            "attach",
            "Attach",
            id="fleet.attach",
            tooltip="attach to the process, or to all of a job over its nodes",
        ),
        Binding("escape", "clear", "Clear", show=False, id="processes.clear", tooltip="clear the filter"),
        FINDINGS_BINDING,
    ]

    def __init__(self) -> None:
        super().__init__()
        self._view = FleetView()
        self._made_of: tuple[object, ...] = ()

    def compose_body(self) -> ComposeResult:
        """The widgets from top to bottom."""
        yield Notes(self._draw_notes, id="notes")
        yield FleetTable(self.monitor.appearance, id="fleet")
        yield FilterLine(self.hint, "words, or an expression: util<10 and mem>100GiB")

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(FleetTable).focus()

    @property
    def _fleet(self) -> Fleet:
        return self.monitor.snapshot.fleet or Fleet("")

    def draw(self) -> None:
        """Hand the newest answers to the table; rows are made again only if a part of the fleet or the view is new."""
        self.query_one(Notes).redraw()
        fleet = self._fleet
        made_of = (*(id(part) for part in fleet[: Fleet._fields.index("trouble")]), self._view)
        if made_of == self._made_of:
            return
        self._made_of = made_of
        table = self.query_one(FleetTable)
        table.set_view(self._view, self._why_none(fleet))
        table.set_entries(fleet_rows(fleet, self._view, self.monitor.appearance))

    def attention(self) -> Attention:
        """The open nodes and jobs that are on screen."""
        rows = self.query_one(FleetTable).on_screen if self.is_mounted else ()
        opened = self._view.toggled
        nodes = {row.place for row in rows if row.place and (RowKind.NODE, row.place) in opened}
        jobs = {row.job for row in rows if row.job and (RowKind.JOB, row.job) in opened}
        graphs = {row.place for row in rows if row.kind is RowKind.NODE and row.place}
        is_wide = self.size.width >= HISTORY_FROM_WIDTH
        by_job = self._view.is_by_job
        wanted = FleetAttention(
            frozenset(() if by_job else nodes),
            frozenset(jobs if by_job else ()),
            by_job,
            frozenset(graphs if is_wide and not by_job else ()),
        )
        return Attention(fleet=wanted)

    def on_resize(self) -> None:
        """Draw for the new size, on which other rows may be visible."""
        self.call_after_refresh(self.update_from_monitor)
        self.monitor.attend()

    @on(FleetTable.Scrolled)
    def _scrolled(self) -> None:
        self.monitor.attend()

    @property
    def view(self) -> FleetView:
        return self._view

    def change_view(self, **parts: object) -> None:
        self._view = self._view._replace(**parts)  # type: ignore[arg-type]
        self.update_from_monitor()
        self.monitor.attend()

    def all_rows(self) -> Sequence[FleetRow]:
        return fleet_rows(self._fleet, self._view._replace(predicate=None), self.monitor.appearance)

    def action_clear(self) -> None:
        """Clear the filter."""
        if self._view.filter_text:
            self.apply_filter("")

    def action_jobs(self) -> None:
        """Jobs in place of nodes, or nodes in place of jobs."""
        self.change_view(is_by_job=not self._view.is_by_job)

    def action_fold(self) -> None:
        """Show or hide what lies below the row under the cursor."""
        row = self.query_one(FleetTable).current
        if row is not None and row.kind in FOLDS:
            self.change_view(toggled=self._view.toggled ^ {row.key})

    def action_close(self) -> None:
        """Hide what lies below this row, or else go to the row that it lies below."""
        table = self.query_one(FleetTable)
        row = table.current
        if row is None:
            return
        if row.is_open:
            self.change_view(toggled=self._view.toggled ^ {row.key})
            return
        above = [other for other in table.entries[: table.entries.index(row)] if other.depth < row.depth]
        if above:
            table.move_to(above[-1].key)

    @on(Listing.Chosen)
    def _chosen(self, message: Listing.Chosen) -> None:
        row = message.entry
        if not isinstance(row, FleetRow):
            return
        if row.place is None:
            self.action_fold()
        elif self.monitor.snapshot.is_demo:
            self.monitor.say(f"This is a demonstration: there is no machine {row.place.node}.", is_error=False)
        elif row.holding is not None:
            self._attach_to((row.holding,))
        elif can_be_node(row.place.node):
            visit(self.monitor, self.app, row.place.node, visit_words(row.place.node))
        else:
            self.monitor.say(f"{row.place.node} is no name for ssh: the label `node` can give the node one.")

    def action_attach(self) -> None:
        """Attach to the process under the cursor, or to all of a job, wherever they run."""
        row = self.query_one(FleetTable).current
        if row is None or not (row.holding or row.kind is RowKind.JOB):
            self.monitor.say("Attach to a process, or to a job (t) with all its processes.", is_error=False)
        elif self.monitor.snapshot.is_demo:
            self.monitor.say("This is a demonstration: there is nothing to attach to.", is_error=False)
        elif row.holding is not None:
            self._attach_to((row.holding,))
        elif row.job is not None and row.job in self._fleet.ranks:
            self._attach_to(self._fleet.ranks[row.job])
        else:
            self.monitor.say("Its processes are not known yet: space asks for them.", is_error=False)

    def _attach_to(self, holdings: Iterable[Holding]) -> None:
        places = list(dict.fromkeys(f"{held.place.node}:{held.pid}" for held in holdings))
        node = places[0].rpartition(":")[0]
        visit(self.monitor, self.app, node, [sys.executable, "-m", "gputui", "attach", *places])

    def show_node(self, place: Place) -> None:
        """Put the cursor on a node."""
        cluster = (RowKind.CLUSTER, place.cluster)
        self.change_view(is_by_job=False, toggled=self._view.toggled - {cluster})
        self.query_one(FleetTable).move_to((RowKind.NODE, place))

    def _why_none(self, fleet: Fleet) -> str:
        if not fleet.scrape_interval_s:
            return ""
        if self._view.is_by_job:
            told_by = {found.exporter for found in fleet.found}
            if Exporter.SSH in told_by:
                return NO_JOBS_HERE
            return "" if fleet.jobs is None and Exporter.GPUTUI in told_by else NO_JOBS
        return NO_NODES if fleet.found else NOBODY

    def _draw_notes(self, width: int) -> list[Line]:
        if not self.is_mounted:
            return []
        ellipsis = self.monitor.appearance.glyphs.ellipsis
        return draw_fleet_notes(self._fleet, self.monitor.snapshot.time, width, ellipsis)
