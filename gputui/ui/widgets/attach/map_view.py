"""The map of a device's segments with a cursor that walks segments and blocks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from itertools import count
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from gputui.explain.memory.release import SMALL_PAGE_BYTES
from gputui.model.attached.allocator import BlockState, Segment
from gputui.model.attached.analysis import SegmentRelease
from gputui.model.attached.moment import DeviceLayout
from gputui.ui.dialogs.menu import Menu
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.attach.map.groups import SEGMENT_ORDERS, Heading, SegmentRow, Sorting, groups_of, map_rows
from gputui.ui.drawing.attach.map.row_cells import MapRow, RowCells, block_holding
from gputui.ui.drawing.attach.map.segments import CELLS_AT, draw_heading, draw_map_head, draw_segment, order_at
from gputui.ui.drawing.attach.map.zoom import ZoomRow, draw_zoom_head, draw_zoom_row, row_of_block, zoom_rows
from gputui.ui.drawing.line import Line
from gputui.ui.widgets.listing import Listing


class MapView(Listing[MapRow]):
    """All segments, or one of them zoomed; cells are computed when their line is first drawn.

    `draw_empty` draws the lines that say why there are no segments.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "block(-1)", "Block", show=False, id="map.previous", tooltip="the previous block"),
        Binding("right,l", "block(1)", "Block", show=False, id="map.next", tooltip="the next block"),
        Binding("shift+left,H", "cell(-1)", "Cell", show=False, id="map.left", tooltip="a block one cell to the left"),
        Binding(
            "shift+right,L", "cell(1)", "Cell", show=False, id="map.right", tooltip="a block one cell to the right"
        ),
        Binding("z", "zoom", "Zoom", id="map.zoom", tooltip="the segment under the cursor, with every block"),
        Binding(
            "o,f6", "sort", "Sort", key_display="o", id="map.sort", tooltip="sort by address, size, stuck, releasable"
        ),
        Binding("r", "reverse", "Reverse", show=False, id="map.reverse", tooltip="reverse the order"),
        Binding("escape", "whole_map", "Whole map", show=False, id="map.whole", tooltip="back from a zoomed segment"),
        Binding("enter,t", "choose", "Tensor", id="map.tensor", tooltip="the block's tensor"),
    ]

    class Moved(Message):
        """The cursor is on another block, or the block has changed."""

    class TensorRequested(Message):
        """The user asks for the tensor of a block; only a live block can have one."""

        def __init__(self, address: int, *, is_live: bool) -> None:
            super().__init__()
            self.address = address
            self.is_live = is_live

    def __init__(
        self,
        appearance: Appearance,
        draw_empty: Callable[[int], Sequence[Line]],
        *,
        id: str | None = None,  # noqa: A002 - Textual's name
    ) -> None:
        super().__init__(id=id)
        self._appearance = appearance
        self._draw_empty = draw_empty
        self._layout: DeviceLayout | None = None
        self._sorting = Sorting()
        self._is_zoomed = False
        self._block = 0
        self._cell = 0
        self._cells = RowCells(1)

    @property
    def release(self) -> SegmentRelease | None:
        """The segment under the cursor."""
        return None if self.current is None else _release_of(self.current)

    @property
    def block(self) -> int:
        """The index of the block under the cursor in its segment."""
        return self._block

    @property
    def address(self) -> int | None:
        """The address of the block under the cursor."""
        return self.release.segment.blocks[self._block].address if self.release else None

    @property
    def is_zoomed(self) -> bool:
        """Whether one segment is shown alone."""
        return self._is_zoomed

    def page_bytes(self, release: SegmentRelease) -> int | None:
        """The unit by which an expandable segment shrinks, None if it is unknown."""
        if release.segment.is_small:
            return SMALL_PAGE_BYTES
        return self._layout.settings.large_page_bytes if self._layout and self._layout.settings else None

    def set_layout(self, layout: DeviceLayout | None) -> None:
        """Show a device's segments; the cursor stays on its address."""
        if layout is not None and layout is self._layout:
            return
        address = self.address
        self._layout = layout
        self._cells = RowCells(self._room)
        self._arrange(address)

    def _sort(self, sorting: Sorting) -> None:
        """Show all segments in this order, the cursor on the first."""
        self._sorting = sorting
        self._is_zoomed = False
        self._cursor = self._block = self._cell = 0
        self._arrange(None)

    def jump(self, address: int) -> bool:
        """Put the cursor on the block that contains an address; False if there is none."""
        release = self._release_at(address)
        if release is None:
            return False
        self._is_zoomed = self._is_zoomed and release is self.release
        self._arrange(address)
        return True

    def _arrange(self, address: int | None) -> None:
        """Rebuild the rows, with the cursor on the block at `address`; it keeps its line if there is none."""
        release = None if address is None else self._release_at(address)
        self._is_zoomed = self._is_zoomed and release is not None
        if self._is_zoomed and release is not None:
            self._entries = zoom_rows(release, self._cells.spans_of(release), self.page_bytes(release), self._room)
        else:
            self._entries = map_rows(groups_of(self._layout, self._sorting), self._room) if self._layout else ()
        if release is not None and address is not None:
            self._put_on(release, block_holding(release, address))
        else:
            self._cursor = max(0, min(self._cursor, len(self._entries) - 1))
            self._step_off_heading(1)
            self._block = min(self._block, len(self.release.segment.blocks) - 1) if self.release else 0
        self._moved()

    def _release_at(self, address: int) -> SegmentRelease | None:
        releases = self._layout.release.segments if self._layout else ()
        return next((release for release in releases if _contains(release.segment, address)), None)

    def _put_on(self, release: SegmentRelease, block: int) -> None:
        """Put the cursor on a block of a segment that has rows."""
        self._block = block
        place = next(place for place, row in enumerate(self._entries) if _release_of(row) is release)
        row = self._entries[place]
        if isinstance(row, ZoomRow):
            rows = [zoom_row for zoom_row in self._entries if isinstance(zoom_row, ZoomRow)]
            place = row_of_block(rows, self._cells.runs_of_chunk, block, self._room)
        else:
            place += next(line for line in count() if self._cells.selected(self._entries[place + line], block))
        self._cursor = place
        self._cell = self._cells.selected(self._entries[place], block).start

    def _moved(self) -> None:
        self.redraw()
        self.post_message(self.Moved())

    @property
    def _room(self) -> int:
        return max(1, self.size.width - CELLS_AT)

    def key_of(self, entry: MapRow) -> Hashable:
        """The row itself: the cursor is placed by address, not by key."""
        return entry

    def draw_head(self, width: int) -> Line:
        """Column titles, or the segment that is zoomed."""
        if self._is_zoomed and self.release:
            return draw_zoom_head(self.release, self.page_bytes(self.release), width)
        return draw_map_head(self._sorting, width, self._appearance)

    def _line(self, entry: MapRow, place: int, width: int) -> Line:  # noqa: ARG002 - a segment has several places
        if isinstance(entry, Heading):
            return draw_heading(entry, width)
        runs, is_current = self._cells.runs_of(entry), entry.release is self.release
        selected = self._cells.selected(entry, self._block) if is_current else range(0)
        if isinstance(entry, ZoomRow):
            return draw_zoom_row(entry, runs, selected, width, self._appearance)
        return draw_segment(entry, runs, selected, width, self._appearance, is_current=is_current)

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """The visible rows, or why there are none."""
        return super().draw(width, height) if self._entries else self._draw_empty(width)

    def _step_off_heading(self, direction: int) -> None:
        """Move on to the next segment in this direction, or else in the other."""
        for steps in (direction, -direction):
            while isinstance(self.current, Heading) and 0 <= self._cursor + steps < len(self._entries):
                self._cursor += steps

    def action_move(self, steps: int) -> None:
        """Move to another segment, or another line of a zoomed one, and stay in the column."""
        self._cursor = max(0, min(self._cursor + steps, len(self._entries) - 1))
        self._step_off_heading(1 if steps > 0 else -1)
        row = self.current
        if row is not None:
            self._block = self._cells.block_at(row, self._cell)
            self._moved()

    def action_block(self, steps: int) -> None:
        """Move to a neighbouring block; after the last one comes the next segment."""
        release = self.release
        if release is None:
            return
        block = self._block + steps
        if not 0 <= block < len(release.segment.blocks):
            release = self._release_beyond(steps)
            block = 0 if steps > 0 or release is None else len(release.segment.blocks) - 1
        if release is not None:
            self._put_on(release, block)
            self._moved()

    def _release_beyond(self, steps: int) -> SegmentRelease | None:
        """The segment after the one under the cursor, or before it."""
        rows = self._entries[self._cursor + 1 :] if steps > 0 else reversed(self._entries[: self._cursor])
        releases = (_release_of(row) for row in rows)
        return next((release for release in releases if release is not None and release is not self.release), None)

    def action_cell(self, steps: int) -> None:
        """Move by one cell, past blocks that are too small for a cell of their own."""
        row = self.current
        if row is None or isinstance(row, Heading):
            return
        cells = self._cells.selected(row, self._block)
        cell = cells.stop if steps > 0 else cells.start - 1
        end = row.shown if isinstance(row, SegmentRow) else self._room
        if 0 <= cell < end:
            self._cell, self._block = cell, self._cells.block_at(row, cell)
            self._moved()

    def action_zoom(self) -> None:
        """Show the segment under the cursor alone, or all of them again."""
        self._is_zoomed = not self._is_zoomed
        self._arrange(self.address)

    action_whole_map = action_zoom

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While nothing is zoomed, Escape leaves the screen."""
        return self._is_zoomed if action == "whole_map" else super().check_action(action, parameters)

    def action_choose(self) -> None:
        """Ask for the block's tensor."""
        if self.release:
            block = self.release.segment.blocks[self._block]
            self.post_message(self.TensorRequested(block.address, is_live=block.state is BlockState.ACTIVE_ALLOCATED))

    def on_resize(self) -> None:
        """Rebuild the rows: cells now stand for other bytes."""
        self._cells = RowCells(self._room)
        self._arrange(self.address)

    def action_sort(self) -> None:
        """Ask for an order; a capital letter reverses it."""
        choices = [(order.letter, order.title, order.name) for order in SEGMENT_ORDERS]

        def chosen(name: str | None) -> None:
            if name:
                self._sort(Sorting(name.removeprefix("-"), name.startswith("-")))

        self.app.push_screen(Menu("Sort segments by (capital letter: reversed)", choices), chosen)

    def action_reverse(self) -> None:
        self._sort(replace(self._sorting, is_reversed=not self._sorting.is_reversed))

    def head_clicked(self, x: int) -> None:
        """Sort by the column; a second time reverses."""
        order = order_at(x)
        if order and not self._is_zoomed:
            is_again = self._sorting.order == order
            self._sort(Sorting(order, is_again and not self._sorting.is_reversed))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the clicked block; a second click asks for its tensor, a click on the head sorts."""
        event.prevent_default()  # the list's own handler
        place = self._top + event.y - 1
        if event.y == 0:
            self.head_clicked(event.x)
        elif place < len(self._entries) and not isinstance(self._entries[place], Heading):
            self._cursor, self._cell = place, max(0, event.x - CELLS_AT)
            self._block = self._cells.block_at(self._entries[place], self._cell)
            self._moved()
            if event.chain == 2:
                self.action_choose()


def _contains(segment: Segment, address: int) -> bool:
    return 0 <= address - segment.address < segment.size_bytes


def _release_of(row: MapRow) -> SegmentRelease | None:
    return None if isinstance(row, Heading) else row.release
