"""The device screen."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputui.model.history import SPANS_S
from gputui.model.machine.device import Device
from gputui.model.machine.snapshot import Attention
from gputui.ui.bindings import HIDDEN_FINDINGS_BINDING, HIDDEN_PAST_BINDING
from gputui.ui.drawing.line import Line, wrap
from gputui.ui.drawing.monitor.device_page import draw_device_page
from gputui.ui.drawing.monitor.process_rows import View, process_rows_of
from gputui.ui.screens.base import SubScreen
from gputui.ui.screens.past import show_past
from gputui.ui.widgets.page import Page

GONE = (
    "NVML no longer reports this device: its MIG instance was destroyed, or the driver lost the GPU. "
    "`dmesg | grep -i xid` shows a lost GPU; Esc goes back."
)


class DeviceScreen(SubScreen):
    """All readings of one device with graphs of their history; left and right go to its neighbours."""

    KEY_GROUPS: ClassVar[dict[str, str]] = {"device": "Device screen", "graph": "Graphs"}

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "step(-1)", "Previous", id="device.previous", tooltip="the previous device"),
        Binding("right,l", "step(1)", "Next", id="device.next", tooltip="the next device"),
        Binding("z", "zoom", "Zoom", id="graph.zoom", tooltip="seconds per cell of the graphs"),
        Binding("y", "copy_identity", "Copy UUID", id="copy.identity", tooltip="copy the PID, or the device's UUID"),
        HIDDEN_FINDINGS_BINDING,
        HIDDEN_PAST_BINDING,
    ]

    def __init__(self, key: str) -> None:
        super().__init__()
        self._key = key
        self._zoom = 0

    def compose_body(self) -> ComposeResult:
        yield Page(self._draw_page, id="page")

    def draw(self) -> None:
        self.query_one(Page).redraw()

    def attention(self) -> Attention:
        """The link rates of this device."""
        return Attention(devices=frozenset({self._key}))

    def action_zoom(self) -> None:
        """The next resolution of the graphs."""
        self._zoom = (self._zoom + 1) % len(SPANS_S)
        self.draw()

    def action_copy_identity(self) -> None:
        """Copy the device's UUID."""
        device = self._device()
        self.monitor.copy("UUID", device.uuid if device else "")

    def action_step(self, steps: int) -> None:
        """Go to a neighbouring device."""
        keys = [device.key for device in self.monitor.snapshot.devices.devices]
        if self._key in keys:
            self._key = keys[(keys.index(self._key) + steps) % len(keys)]
            self.monitor.attend()
            self.draw()

    def action_past(self, _hours: int) -> None:
        """Open the screen of the past at the present hour."""
        show_past(self)

    def _device(self) -> Device | None:
        devices = self.monitor.snapshot.devices.devices
        return next((device for device in devices if device.key == self._key), None)

    def _draw_page(self, width: int, height: int) -> list[Line]:
        device = self._device()
        if device is None:
            return wrap(GONE, width, "fair")
        monitor = self.monitor
        rows = process_rows_of(monitor.snapshot, View(order="memory"), monitor.appearance)
        mine = [row for row in rows if row.device == device.label]
        findings = [finding for finding in monitor.snapshot.findings if finding.device == device.key]
        return draw_device_page(
            device, mine, monitor.history, self._zoom, (width, height), monitor.appearance, findings
        )
