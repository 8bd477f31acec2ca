"""The overview: devices, host, processes on one screen."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputui.explain.filtering import parse_filter
from gputui.model.process import Identity, Process
from gputui.model.snapshot import Attention
from gputui.ui.dialogs.menu import Menu
from gputui.ui.drawing.devices import DeviceRow
from gputui.ui.drawing.overview import arrange
from gputui.ui.drawing.process_fields import PROCESS_FIELDS
from gputui.ui.drawing.process_rows import PROCESS_ORDER_BY_NAME, ProcessRow, process_rows_of
from gputui.ui.screens.base import MonitorScreen
from gputui.ui.screens.device import DeviceScreen
from gputui.ui.screens.process import ProcessScreen
from gputui.ui.screens.signals import choose_signal, confirm_signal
from gputui.ui.widgets.device_list import PCIE_FROM_WIDTH, DeviceList
from gputui.ui.widgets.filter_line import FilterLine
from gputui.ui.widgets.graph_band import GraphBand
from gputui.ui.widgets.listing import Listing
from gputui.ui.widgets.overview_lines import Banner, HostPanel
from gputui.ui.widgets.process_table import ProcessTable


class Overview(MonitorScreen):
    """Devices, host, processes; Tab switches between the two lists, Enter opens what is under the cursor."""

    KEY_GROUPS: ClassVar[dict[str, str]] = {"processes": "Processes"}

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", id="list.open", tooltip="open the device or process under the cursor"),
        Binding(
            "slash",
            "filter",
            "Filter",
            key_display="/",
            id="processes.filter",
            tooltip="show only processes that match",
        ),
        Binding(
            "o,f6",
            "sort",
            "Sort",
            key_display="o",
            id="processes.sort",
            tooltip="sort: o, then a letter, capital to reverse",
        ),
        Binding("r", "reverse", "Reverse", show=False, id="processes.reverse", tooltip="reverse the order"),
        Binding("t", "tree", "Tree", id="processes.tree", tooltip="group ranks by launcher, with workers"),
        Binding(
            "space",
            "tag",
            "Tag",
            show=False,
            id="processes.tag",
            tooltip="tag: signals go to all tagged processes",
        ),
        Binding(
            "escape", "clear", "Clear", show=False, id="processes.clear", tooltip="clear the tags, then the filter"
        ),
        Binding("e", "environment", "Env", show=False, id="process.environment", tooltip="its environment variables"),
        Binding("f9", "choose_signal", "Signal", id="signal.choose", tooltip="choose a signal"),
        Binding(
            "T", "signal('SIGTERM')", "Terminate", show=False, id="signal.term", tooltip="send SIGTERM: ask it to end"
        ),
        Binding("K", "signal('SIGKILL')", "Kill", show=False, id="signal.kill", tooltip="send SIGKILL: end it at once"),
        Binding(
            "I",
            "signal('SIGINT')",
            "Interrupt",
            show=False,
            id="signal.interrupt",
            tooltip="send SIGINT, as Ctrl-C does",
        ),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._tagged: frozenset[Identity] = frozenset()

    def compose_body(self) -> ComposeResult:
        """The widgets from top to bottom."""
        appearance = self.monitor.appearance
        yield Banner(id="banner")
        yield DeviceList(appearance, self.monitor.settings.graph, id="devices")
        yield HostPanel(appearance, id="host")
        yield GraphBand(appearance, id="band")
        yield ProcessTable(appearance, self.monitor.settings.columns, id="processes")
        yield FilterLine(
            lambda text: parse_filter(text, PROCESS_FIELDS), "words, or an expression: user==ana and mem>10GiB"
        )

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(ProcessTable).focus()

    def draw(self) -> None:
        """Hand every widget its slice of the snapshot."""
        monitor = self.monitor
        snapshot = monitor.snapshot
        if not snapshot.time:  # nothing was read yet
            return
        self._arrange()
        self.query_one(Banner).set_problems(snapshot)
        self.query_one(DeviceList).set_devices(snapshot.devices.devices, monitor.history)
        self.query_one(HostPanel).set_host(snapshot.host)
        band = self.query_one(GraphBand)
        if band.display:
            band.set_snapshot(snapshot, monitor.history)
        table = self.query_one(ProcessTable)
        table.set_view(monitor.view, self._tagged)
        table.set_entries(process_rows_of(snapshot, monitor.view, monitor.appearance))

    def draw_status(self) -> None:
        """The status, with the number of tagged processes that still exist."""
        reading = self.monitor.snapshot.processes
        still_tagged = self._tagged & {process.identity for process in reading.processes}
        if still_tagged != self._tagged and not reading.problem:
            self._tagged = still_tagged
            self.monitor.set_tagged(len(still_tagged))
        super().draw_status()

    def _arrange(self) -> None:
        """Set the heights of the parts."""
        arrangement = arrange(self.monitor.snapshot, self.size.width, self.size.height)
        devices = self.query_one(DeviceList)
        devices.display = bool(arrangement.device_lines)
        devices.set_height(arrangement.device_lines)
        self.query_one(GraphBand).display = arrangement.has_band

    def on_resize(self) -> None:
        """Arrange the parts for the new size."""
        self.call_after_refresh(self.update_from_monitor)
        self.monitor.attend()

    def attention(self) -> Attention:
        """The link rates of all devices, if their columns are shown."""
        devices = self.monitor.snapshot.devices.devices
        wide = self.size.width >= PCIE_FROM_WIDTH
        return Attention(frozenset(device.key for device in devices) if wide else frozenset())

    @on(Listing.Chosen)
    def _chosen(self, message: Listing.Chosen) -> None:
        if isinstance(message.entry, DeviceRow):
            self.app.push_screen(DeviceScreen(message.entry.device.key))
        elif isinstance(message.entry, ProcessRow) and message.entry.process:
            self.app.push_screen(ProcessScreen(message.entry.process))

    @on(ProcessTable.HeadClicked)
    def _head_clicked(self, message: ProcessTable.HeadClicked) -> None:
        if message.column in PROCESS_ORDER_BY_NAME:
            self._sort_by(message.column, is_reversed=message.column == self.monitor.view.order)

    def action_sort(self) -> None:
        """Ask for an order; `o` and its letter can be typed together."""
        choices = [(order.letter, order.title, order.name) for order in PROCESS_ORDER_BY_NAME.values()]

        def chosen(name: str | None) -> None:
            if name:
                self._sort_by(name.removeprefix("-"), is_reversed=name.startswith("-"))

        self.app.push_screen(Menu("Sort by (capital letter: reversed)", choices), chosen)

    def _sort_by(self, name: str, *, is_reversed: bool) -> None:
        old = self.monitor.view
        toggled = is_reversed and not (old.order == name and old.is_reversed)
        self.monitor.view = old._replace(order=name, is_reversed=toggled)
        self.update_from_monitor()

    def action_reverse(self) -> None:
        self.monitor.view = self.monitor.view._replace(is_reversed=not self.monitor.view.is_reversed)
        self.update_from_monitor()

    def action_tree(self) -> None:
        """Switch between jobs with ranks and workers, and a plain list."""
        self.monitor.view = self.monitor.view._replace(is_tree=not self.monitor.view.is_tree)
        self.update_from_monitor()

    def action_tag(self) -> None:
        """Tag or untag the process under the cursor and go to the next."""
        table = self.query_one(ProcessTable)
        row = table.current
        if row and row.identity:
            self._tagged ^= {row.identity}
        self.monitor.set_tagged(len(self._tagged))
        table.action_move(1)
        self.update_from_monitor()

    def action_clear(self) -> None:
        """Clear the tags, or the filter if nothing is tagged."""
        if self._tagged:
            self._tagged = frozenset()
            self.monitor.set_tagged(0)
        elif self.monitor.view.filter_text:
            self._apply_filter("")
        self.update_from_monitor()

    def action_filter(self) -> None:
        self.query_one(FilterLine).open(self.monitor.view.filter_text)

    def action_environment(self) -> None:
        """Open the process screen at the environment."""
        row = self.query_one(ProcessTable).current
        if row and row.process:
            self.app.push_screen(ProcessScreen(row.process, at_environment=True))

    def action_signal(self, name: str) -> None:
        """Ask, then send a signal to the tagged processes or the one under the cursor."""
        confirm_signal(self, name, self._targets())

    def action_choose_signal(self) -> None:
        """Choose a signal, ask, then send it."""
        choose_signal(self, self._targets())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """With --readonly there are no signals, and no tags to choose their targets."""
        if action in ("signal", "choose_signal", "tag"):
            return not self.monitor.state.is_readonly
        return super().check_action(action, parameters)

    def _targets(self) -> tuple[Process, ...]:
        processes = self.monitor.snapshot.processes.processes
        if self._tagged:
            return tuple(process for process in processes if process.identity in self._tagged)
        row = self.query_one(ProcessTable).current
        return (row.process,) if row and row.process else ()

    @on(FilterLine.Typed)
    def _filter_typed(self, message: FilterLine.Typed) -> None:
        self._apply_filter(message.text)

    def _apply_filter(self, text: str) -> None:
        predicate = parse_filter(text, PROCESS_FIELDS)
        self.monitor.view = self.monitor.view._replace(predicate=predicate, filter_text=text.strip())
        self.monitor.state = self.monitor.state._replace(filter_text=text.strip())
        self.update_from_monitor()

    @on(FilterLine.Closed)
    def _filter_closed(self) -> None:
        self.query_one(ProcessTable).focus()
