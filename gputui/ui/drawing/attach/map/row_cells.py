"""The cells of the map's rows, computed when they are first needed, and kept."""

from __future__ import annotations

from bisect import bisect_right
from typing import Union

from gputui.model.attached.analysis import SegmentRelease
from gputui.ui.drawing.attach.map.cells import Run, Span, runs_to_scale, spans_of
from gputui.ui.drawing.attach.map.groups import Heading, SegmentRow
from gputui.ui.drawing.attach.map.zoom import Chunk, ZoomRow, cells_of_block, runs_of_chunk, zoomed_block_at

MapRow = Union[Heading, SegmentRow, ZoomRow]


class RowCells:
    """The cells of one layout's rows, in lines of `room` cells."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._spans: dict[int, tuple[Span, ...]] = {}
        self._runs: dict[tuple[int, int], tuple[Run, ...]] = {}

    def spans_of(self, release: SegmentRelease) -> tuple[Span, ...]:
        """The segment's bytes by kind."""
        address = release.segment.address
        if address not in self._spans:
            self._spans[address] = spans_of(release)
        return self._spans[address]

    def runs_of(self, row: SegmentRow | ZoomRow) -> tuple[Run, ...]:
        """The cells of the row's segment, or of its chunk where the segment is zoomed."""
        if isinstance(row, ZoomRow):
            return self.runs_of_chunk(row.release, row.chunk)
        segment = row.release.segment
        key = (segment.address, -1)
        if key not in self._runs:
            self._runs[key] = runs_to_scale(self.spans_of(row.release), segment.size_bytes, row.cells)
        return self._runs[key]

    def runs_of_chunk(self, release: SegmentRelease, chunk: Chunk) -> tuple[Run, ...]:
        """The cells of a chunk of a zoomed segment."""
        key = (release.segment.address, chunk.start)
        if key not in self._runs:
            self._runs[key] = runs_of_chunk(chunk, self.spans_of(release), self.room)
        return self._runs[key]

    def selected(self, row: MapRow, block: int) -> range:
        """The cells of a row that show a block of its segment."""
        if isinstance(row, ZoomRow):
            return cells_of_block(self.runs_of(row), row, block, self.room)
        return row.cells_of_block(block) if isinstance(row, SegmentRow) else range(0)

    def block_at(self, row: MapRow, cell: int) -> int:
        """The block that a cell of a row shows."""
        if isinstance(row, ZoomRow):
            return zoomed_block_at(self.runs_of(row), row, cell, self.room)
        return block_holding(row.release, row.address_at(cell)) if isinstance(row, SegmentRow) else 0


def block_holding(release: SegmentRelease, address: int) -> int:
    """The index of the block that contains an address."""
    return bisect_right(release.segment.blocks, address, key=lambda block: block.address) - 1
