"""The Map screen: every segment of the device's allocator, and an inspector of the block under the cursor."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Container

from gputui.ui.drawing.attach.map.inspector import Inspection, draw_inspection, inspect
from gputui.ui.drawing.attach.map.segments import draw_map_legend, kinds_of
from gputui.ui.drawing.line import Line, paragraph
from gputui.ui.screens.attach.base import AttachScreen
from gputui.ui.widgets.attach.map_view import MapView
from gputui.ui.widgets.painted import Drawn, Notes

WIDE_FROM = 120


class MapScreen(AttachScreen):
    """The map, and the inspector below it, or beside it on a wide terminal."""

    NAME = "map"
    SHOWS_TOP = True
    PARTS_WITH_KEYS = (MapView,)

    def __init__(self) -> None:
        super().__init__()
        self._jump_address: int | None = None
        self._inspection: Inspection | None = None

    def compose_body(self) -> ComposeResult:
        """Map and inspector, and the legend below both."""
        appearance = self.monitor.appearance
        yield Container(
            MapView(appearance, self._draw_empty, id="map"), Drawn(self._draw_inspector, id="inspector"), id="map-body"
        )
        yield Notes(self._draw_legend, id="legend")

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(MapView).focus()

    def on_resize(self) -> None:
        """Put the inspector where there is room."""
        self.set_class(self.size.width >= WIDE_FROM, "-wide")
        self.call_after_refresh(self.update_from_monitor)

    def draw(self) -> None:
        """Hand the device's layout to the map."""
        layout = self.device.layout if self.device else None
        map_view = self.query_one(MapView)
        map_view.set_layout(layout)
        self.query_one("#legend", Notes).redraw()
        if layout and self._jump_address is not None:
            address, self._jump_address = self._jump_address, None
            if not map_view.jump(address):
                self.monitor.say(f"No segment contains {address:#x} any more: the allocator has released it.")

    def jump(self, address: int) -> None:
        """Put the cursor on the block that contains an address, now or with the next moment."""
        self._jump_address = address
        if self.query(MapView):
            self.draw()

    def _draw_legend(self, width: int) -> list[Line]:
        layout = self.device.layout if self.device else None
        return draw_map_legend(kinds_of(layout), width) if layout else []

    def _draw_empty(self, width: int) -> list[Line]:
        """Why there is no map."""
        moment, device = self.moment, self.device
        if moment is None or device is None or moment.ended or moment.problems:
            return self.nothing_yet(width)
        if not moment.look_time:
            return paragraph("Waiting for the first look at the allocator's segments ...", width, "dim")
        return paragraph(f"PyTorch holds no memory on device {device.number}.", width, "dim")

    @on(MapView.Moved)
    def _moved(self) -> None:
        map_view = self.query_one(MapView)
        release = map_view.release
        self._inspection = inspect(release, map_view.block, map_view.page_bytes(release)) if release else None
        self.query_one("#inspector", Drawn).redraw()

    def _draw_inspector(self, width: int, height: int) -> list[Line]:
        """Everything about the block under the cursor; blank where there is none."""
        if self._inspection is None:
            return []
        return draw_inspection(self._inspection, width, height, self.monitor.appearance)

    @on(MapView.TensorRequested)
    def _tensor_requested(self, message: MapView.TensorRequested) -> None:
        if message.is_live:
            self.monitor.jump_to("tensors", message.address)
        else:
            self.monitor.say("This block is free: it has no tensor.", is_error=False)
