"""The devices of the overview, a line each."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from gputui.model.history import History
from gputui.model.machine.device import Device
from gputui.model.reading import Absent, Reading
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.columns import Column, TableLayout, draw_titles, lay_out, worth_showing
from gputui.ui.drawing.line import Line
from gputui.ui.drawing.monitor.devices import DEVICE_COLUMNS, DeviceRow, draw_device
from gputui.ui.widgets.listing import Listing

HISTORY_CELLS = 60

PCIE_FROM_WIDTH = next(column.from_width for column in DEVICE_COLUMNS if column.name.startswith("pcie_"))


def _total_bytes(device: Device) -> Reading[float]:
    return device.memory if isinstance(device.memory, Absent) else float(device.memory.total_bytes)


HISTORY_GRAPHS: dict[str, tuple[str, Callable[[Device], Reading[float]]]] = {
    "utilization": ("gpu_utilization_percent", lambda _: 100.0),
    "memory": ("used_bytes", _total_bytes),
    "power": ("power_w", lambda device: device.power_limit_w),
    "temperature": ("temperature_c", lambda device: device.slowdown_temperature_c),
}
"""What the history column can show: the series in the history, and the reading at its top."""


class DeviceList(Listing[DeviceRow]):
    """One line a device: readings from 80 columns, meters from 100, history from 120."""

    def __init__(self, appearance: Appearance, graph: str, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._appearance = appearance
        self._laid_out_for: tuple[int, int, tuple[Column[DeviceRow], ...]] = (0, 0, ())
        self._present_layout: TableLayout[DeviceRow] = ()
        self._series, self._top_of = HISTORY_GRAPHS[graph]

    def set_devices(
        self, devices: tuple[Device, ...], history: History, zoom: int = 0, waiting: frozenset[str] = frozenset()
    ) -> None:
        """Show these devices with their recent history, in resolution `zoom`; those in `waiting` only wait."""
        self.set_entries(
            tuple(
                DeviceRow(device, self._recent(device, history, zoom), self._appearance, device.key in waiting)
                for device in devices
            )
        )

    def _recent(self, device: Device, history: History, zoom: int) -> tuple[float | None, ...]:
        top = self._top_of(device)
        whole = 100.0 if isinstance(top, Absent) or not top else top
        points = history.last(device.key, self._series, HISTORY_CELLS, zoom)
        return tuple(None if point is None else point / whole for point in points)

    def key_of(self, entry: DeviceRow) -> Hashable:
        return entry.device.key

    def draw_head(self, width: int) -> Line:
        return draw_titles(self._layout(width))

    def draw_entry(self, entry: DeviceRow, width: int) -> Line:
        """A device, or why it does not answer."""
        return draw_device(self._layout(width), entry, width)

    def _layout(self, width: int) -> TableLayout[DeviceRow]:
        wanted = (width, self.spare, worth_showing(DEVICE_COLUMNS, self.entries))
        if self._laid_out_for != wanted:
            self._laid_out_for, self._present_layout = wanted, lay_out(wanted[2], width, self.spare)
        return self._present_layout
