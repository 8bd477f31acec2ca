"""The Tensors screen: who owns the allocated memory, as a tree or grouped by shape and type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputui.explain.filtering import parse_filter
from gputui.explain.memory.parts import parts_of
from gputui.explain.owners.owners import keeper_address
from gputui.explain.tensors.request import TENSOR_FIELDS
from gputui.explain.tensors.tree import HOST, LiveBlock, Row
from gputui.explain.tensors.view import TensorView
from gputui.ui.drawing.attach.memory import draw_since
from gputui.ui.drawing.attach.tensors import draw_detail, draw_summary
from gputui.ui.drawing.line import Line, paragraph
from gputui.ui.screens.attach.base import AttachScreen
from gputui.ui.widgets.attach.tensor_list import TensorList
from gputui.ui.widgets.filter_line import FilterLine
from gputui.ui.widgets.listing import Listing
from gputui.ui.widgets.painted import Notes

PROBLEM_LINES = 2
NO_LOOK = "Waiting for the first look at the allocator's blocks ..."
NOT_KEPT = "Of this moment only the counters were kept: n on the Memory screen goes back to now, which has tensors."


class TensorsScreen(AttachScreen):
    """Enter opens a branch, goes from a saved tensor to the one whose graph keeps it, or to the block on the map."""

    NAME = "tensors"
    SHOWS_TOP = True

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l", "open", "Open", show=False, id="tensors.open", tooltip="open the row under the cursor"),
        Binding("left,h", "close", "Close", show=False, id="tensors.close", tooltip="close it, or go to its parent"),
        Binding("g", "group", "Group", id="tensors.group", tooltip="by module, by shape and type, or by line"),
        Binding("o", "sort", "Sort", id="tensors.sort", tooltip="by bytes, count or name"),
        Binding("r", "reverse", "Reverse", show=False, id="tensors.reverse", tooltip="reverse the order"),
        Binding(
            "slash",
            "filter",
            "Filter",
            key_display="/",
            id="tensors.filter",
            tooltip="show only tensors that match",
        ),
        Binding("asterisk", "open_all", "All", key_display="*", id="tensors.all", tooltip="open all, or close all"),
        Binding("b", "block", "Block", id="tensors.block", tooltip="the tensor's block on the map"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._jump_address: int | None = None

    def compose_body(self) -> ComposeResult:
        """Notes, list, detail, and the filter line."""
        yield Notes(self._draw_notes, id="notes")
        yield TensorList(self.monitor.appearance, id="tensor-list")
        yield Notes(self._draw_detail, id="detail")
        yield FilterLine(self._hint, "words, or: dtype==float32 and bytes>10MiB")

    @staticmethod
    def _hint(text: str) -> str:
        parse_filter(text, TENSOR_FIELDS)
        return ""

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(TensorList).focus()

    @property
    def view(self) -> TensorView:
        """The view of this process's tensors."""
        return self.target.tensors if self.target else TensorView()

    def draw(self) -> None:
        """Hand the newest look to the view, and draw it."""
        moment, device = self.moment, self.device
        self.view.look_at(device.layout if device else None, moment.host.storages if moment else ())
        self.query_one("#notes", Notes).redraw()
        self.query_one(TensorList).set_view(self.view)
        self.query_one("#detail", Notes).redraw()
        if self._jump_address is not None and self.view.is_current:
            self._go_to(self._jump_address)

    def _draw_notes(self, width: int) -> list[Line]:
        moment, device = self.moment, self.device
        if moment is None or device is None:
            return self.nothing_yet(width)
        if device.layout is None and self.target is not None and self.target.cursor is not None:
            return paragraph(NOT_KEPT, width, "fair")
        if device.layout is None:
            return self.problems(width) or paragraph(NO_LOOK, width, "fair")
        since = draw_since(moment, device, parts_of(device), width, self.monitor.appearance)
        return [draw_summary(self.view, width), *since, *self.problems(width)[:PROBLEM_LINES]]

    def jump(self, address: int) -> None:
        """Put the cursor on the tensor whose block contains an address, now or with the next tree."""
        self._jump_address = address
        if self.query(TensorList):
            self.draw()

    def _go_to(self, address: int) -> None:
        """Move to the tensor at an address; while branches that lead to it are closed, wait for the next tree."""
        key = self.view.show(address)
        if self.view.is_current:
            self._jump_address = None
            tensors = self.query_one(TensorList)
            tensors.set_view(self.view)
            tensors.move_to(key)

    def _draw_detail(self, width: int) -> Sequence[Line]:
        row = self.query_one(TensorList).current
        return draw_detail(row, self.view.tree.allocated_bytes, width, self.monitor.appearance)

    @on(TensorList.Moved)
    def _moved(self) -> None:
        self.query_one("#detail", Notes).redraw()

    @on(TensorList.Turned)
    def _turned(self, message: TensorList.Turned) -> None:
        self.view.set_open(message.row.node.key, is_open=message.is_open)
        self.draw()

    @on(Listing.Chosen)
    def _chosen(self, message: Listing.Chosen) -> None:
        row = message.entry
        if isinstance(row, Row) and row.node.children:
            self.view.set_open(row.node.key, is_open=not row.is_open)
            self.draw()
        elif isinstance(row, Row) and row.node.block and row.node.block.owner.kept_by:
            self._go_to_keeper(row.node.block)
        else:
            self.action_block()

    def _go_to_keeper(self, block: LiveBlock) -> None:
        """Go to the tensor whose graph keeps this one; say which variable holds it, and the lines of both."""
        layout = self.device.layout if self.device else None
        address = keeper_address(layout, block.owner) if layout else None
        made = f" {block.site.words} allocated it." if block.site else ""
        self.monitor.say(f"{block.owner.kept_by} keeps the graph that this tensor is saved in.{made}", is_error=False)
        if address is not None:
            self.jump(address)

    def action_block(self) -> None:
        """Go to the map, to the block of the tensor under the cursor."""
        row = self.query_one(TensorList).current
        if row is None or row.node.block is None:
            self.monitor.say("Put the cursor on a tensor: only tensors have a block.")
        elif row.node.key[:1] == HOST:
            self.monitor.say("This tensor is in host memory, which has no map.")
        else:
            self.monitor.jump_to("map", row.node.block.address)

    def action_open(self) -> None:
        """Open the row under the cursor, or go to its first child."""
        self.query_one(TensorList).open()

    def action_close(self) -> None:
        """Close the row under the cursor, or go to its parent."""
        self.query_one(TensorList).close()

    def action_group(self) -> None:
        """Group in the next way: by module, by shape and type, or by line."""
        self.view.next_grouping()
        self.draw()

    def action_sort(self) -> None:
        """Sort by the next order."""
        self.view.next_order()
        self.draw()

    def action_reverse(self) -> None:
        self.view.reverse()
        self.draw()

    def action_open_all(self) -> None:
        """Open everything, or close it again."""
        self.view.open_all()
        self.draw()

    def action_leave(self) -> None:
        """Clear the filter, or leave if there is none."""
        if self.view.filter_text:
            self.view.filter("")
            self.draw()
        else:
            super().action_leave()

    def action_filter(self) -> None:
        self.query_one(FilterLine).open(self.view.filter_text)

    @on(FilterLine.Typed)
    def _filter_typed(self, message: FilterLine.Typed) -> None:
        self.view.filter(message.text)
        self.draw()

    @on(FilterLine.Closed)
    def _filter_closed(self) -> None:
        self.query_one(TensorList).focus()
