"""The overview: devices, host, processes on one screen."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputui.model.history import SPANS_S
from gputui.model.machine.finding import MachineFinding
from gputui.model.machine.process import Identity, Process
from gputui.model.machine.secrets import mask_command
from gputui.model.machine.snapshot import Attention
from gputui.model.reading import value_of
from gputui.ui.bindings import (
    COPY_BINDINGS,
    FINDINGS_BINDING,
    HIDDEN_COLLECTIVES_BINDING,
    HIDDEN_PAST_BINDING,
    SIGNAL_BINDINGS,
    ZOOM_BINDING,
)
from gputui.ui.drawing.band import draw_band
from gputui.ui.drawing.line import Line
from gputui.ui.drawing.monitor.devices import DeviceRow
from gputui.ui.drawing.monitor.host import draw_host
from gputui.ui.drawing.monitor.overview import BAND_FROM_WIDTH, arrange, draw_banner
from gputui.ui.drawing.monitor.process_rows import ProcessRow, process_rows_of
from gputui.ui.screens.collectives import ask_collectives
from gputui.ui.screens.device import DeviceScreen
from gputui.ui.screens.past import show_past
from gputui.ui.screens.process import ProcessScreen
from gputui.ui.screens.process_list import ProcessListScreen
from gputui.ui.screens.signals import choose_signal, confirm_signal
from gputui.ui.widgets.device_list import PCIE_FROM_WIDTH, DeviceList
from gputui.ui.widgets.filter_line import FilterLine
from gputui.ui.widgets.listing import Listing
from gputui.ui.widgets.painted import Drawn, Notes
from gputui.ui.widgets.process_table import ProcessTable


class Overview(ProcessListScreen):
    """Devices, host, processes; Tab switches between the two lists, Enter opens what is under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", id="list.open", tooltip="open the device or process under the cursor"),
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
        Binding("a", "attach", "Attach", id="process.attach", tooltip="show its PyTorch memory"),
        FINDINGS_BINDING,
        HIDDEN_COLLECTIVES_BINDING,
        HIDDEN_PAST_BINDING,
        *COPY_BINDINGS,
        ZOOM_BINDING,
        Binding("e", "environment", "Env", show=False, id="process.environment", tooltip="its environment variables"),
        *SIGNAL_BINDINGS,
    ]

    def __init__(self) -> None:
        super().__init__()
        self._tagged: frozenset[Identity] = frozenset()
        self._zoom = 0

    def compose_body(self) -> ComposeResult:
        """The widgets from top to bottom."""
        appearance = self.monitor.appearance
        yield Notes(lambda width: draw_banner(self.monitor.snapshot, width), id="banner")
        yield DeviceList(appearance, self.monitor.settings.graph, id="devices")
        yield Drawn(lambda width, _: draw_host(self.monitor.snapshot.host, width, appearance), id="host")
        yield Drawn(self._draw_band, id="band")
        yield ProcessTable(appearance, self.monitor.settings.columns, id="processes")
        yield FilterLine(self.hint, "words, or an expression: user==ana and mem>10GiB")

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
        self.query_one("#banner", Notes).redraw()
        self.query_one(DeviceList).set_devices(
            snapshot.devices.devices, monitor.history, self._zoom, _waiting(monitor.snapshot.findings)
        )
        self.query_one("#host", Drawn).redraw()
        band = self.query_one("#band", Drawn)
        if band.display:
            band.redraw()
        table = self.query_one(ProcessTable)
        table.set_view(monitor.view, self._tagged)
        table.set_entries(process_rows_of(snapshot, monitor.view, monitor.appearance))

    def _draw_band(self, width: int, height: int) -> list[Line]:
        monitor = self.monitor
        return draw_band(monitor.snapshot, monitor.history, self._zoom, (width, height), monitor.appearance)

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
        self.query_one("#band").display = arrangement.has_band

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
        elif isinstance(message.entry, ProcessRow):
            self._open_row(message.entry)

    def _open_row(self, row: ProcessRow) -> None:
        """Open the row's process, fold or unfold its group, or say in full what a row without both stands for."""
        if row.process:
            self.app.push_screen(ProcessScreen(row.process))
        elif row.group is not None:
            self.fold(row.group)
        else:
            self.monitor.say(f"{row.note[:1].upper()}{row.note[1:]}.", is_error=False)

    def action_attach(self) -> None:
        """Attach to the process under the cursor, or to all ranks of a job."""
        row = self.query_one(ProcessTable).current
        pids = row.pids if row else ()
        if pids:
            self.monitor.attached.attach(*pids)
        else:
            self.monitor.say("No process is under the cursor: move the cursor to one, and attach to it.")

    def action_collectives(self) -> None:
        """Ask NCCL in the process under the cursor, or in a rank of a job, after a question."""
        row = self.query_one(ProcessTable).current
        ask_collectives(self, row.pids if row else ())

    def action_past(self, _hours: int) -> None:
        """Open the screen of the past at the present hour."""
        show_past(self)

    def action_copy_identity(self) -> None:
        """Copy the PID of the process under the cursor, or the UUID of the device."""
        if isinstance(self.focused, DeviceList):
            device = self.query_one(DeviceList).current
            self.monitor.copy("UUID", device.device.uuid if device else "")
        else:
            row = self.query_one(ProcessTable).current
            self.monitor.copy("PID", str(row.process.pid) if row and row.process else "")

    def action_copy_command(self) -> None:
        """Copy the whole command of the process under the cursor, with masked secrets."""
        row = self.query_one(ProcessTable).current
        command = value_of(row.process.command) if row and row.process else None
        self.monitor.copy("command", mask_command(command or ""))

    def action_zoom(self) -> None:
        """The next resolution of the graphs."""
        if self.size.width < BAND_FROM_WIDTH:
            self.monitor.say(
                f"There are no graphs here: the overview has them from {BAND_FROM_WIDTH} columns on, "
                "the device screen (Enter) always.",
                is_error=False,
            )
            return
        self._zoom = (self._zoom + 1) % len(SPANS_S)
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
            self.apply_filter("")
        self.update_from_monitor()

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


def _waiting(findings: tuple[MachineFinding, ...]) -> frozenset[str]:
    """The keys of devices that are busy and hardly work."""
    return frozenset(finding.device for finding in findings if finding.kind == "not_working")
