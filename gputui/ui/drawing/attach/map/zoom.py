"""One segment over as many lines as it takes to see every block; an expandable segment page by page."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gputui.explain.owners.names import counted
from gputui.model.attached.analysis import SegmentRelease
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.attach.map.cells import Run, Span, draw_runs, part_of_runs, runs_of_all
from gputui.ui.drawing.attach.map.groups import blocker_of
from gputui.ui.drawing.attach.map.segments import CELLS_AT
from gputui.ui.drawing.line import Line, fit, join
from gputui.units import format_bytes, format_bytes_short

CELLS_PER_ZOOMED_BLOCK = 6
"""Cells per block on average where a segment is drawn as a whole: room for a letter and some of a name."""

CELLS_PER_BLOCK_IN_PAGE = 2


@dataclass(frozen=True, slots=True)
class Chunk:
    """A page of an expandable segment, or a native segment: spans `first_span`..`end_span` on `lines` lines."""

    number: int
    start: int
    end: int
    first_span: int
    end_span: int
    lines: int


@dataclass(frozen=True, slots=True)
class ZoomRow:
    """One line of a chunk."""

    release: SegmentRelease
    chunk: Chunk
    line: int
    is_page: bool


def zoom_rows(release: SegmentRelease, spans: Sequence[Span], page_bytes: int | None, room: int) -> tuple[ZoomRow, ...]:
    """All lines of a segment, `room` cells each; `page_bytes` is the unit of an expandable segment."""
    is_paged = release.segment.is_expandable and page_bytes is not None
    size = release.segment.size_bytes
    chunk_bytes = page_bytes if is_paged and page_bytes else size
    density = CELLS_PER_BLOCK_IN_PAGE if is_paged else CELLS_PER_ZOOMED_BLOCK
    chunks = [
        _chunk(number, spans, start, min(start + chunk_bytes, size), density, room)
        for number, start in enumerate(range(0, size, chunk_bytes))
    ]
    return tuple(ZoomRow(release, chunk, line, is_paged) for chunk in chunks for line in range(chunk.lines))


def _chunk(number: int, spans: Sequence[Span], start: int, end: int, density: int, room: int) -> Chunk:
    first = bisect_right(spans, start, key=lambda span: span.end)
    last = bisect_left(spans, end, key=lambda span: span.start)
    return Chunk(number, start, end, first, last, max(1, -(-(last - first) * density // room)))


def runs_of_chunk(chunk: Chunk, spans: Sequence[Span], room: int) -> tuple[Run, ...]:
    """All cells of a chunk, line after line."""
    inside = spans[chunk.first_span : chunk.end_span]
    return runs_of_all(inside, chunk.start, chunk.end, chunk.lines * room)


def cells_of_block(runs: Sequence[Run], row: ZoomRow, block: int, room: int) -> range:
    """The cells of the row that show a block, an empty range where none does."""
    cells = [cell for cell, shown in enumerate(_blocks(runs, row, room)) if shown == block]
    return range(cells[0], cells[-1] + 1) if cells else range(0)


def zoomed_block_at(runs: Sequence[Run], row: ZoomRow, cell: int, room: int) -> int:
    """The block that a cell of the row shows."""
    return _blocks(runs, row, room)[min(cell, room - 1)]


def _blocks(runs: Sequence[Run], row: ZoomRow, room: int) -> list[int]:
    part = part_of_runs(runs, row.line * room, room)
    return [run.block for run in part for _ in range(run.cells)]


def row_of_block(
    rows: Sequence[ZoomRow], runs_of: Callable[[SegmentRelease, Chunk], Sequence[Run]], block: int, room: int
) -> int:
    """The index of the first row that shows a block."""
    segment = rows[0].release.segment
    offset = segment.blocks[block].address - segment.address
    place = bisect_right(rows, offset, key=lambda row: row.chunk.start) - 1
    place -= rows[place].line
    lines = range(place, place + rows[place].chunk.lines)
    runs = runs_of(rows[place].release, rows[place].chunk)
    return next((line for line in lines if cells_of_block(runs, rows[line], block, room)), place)


def draw_zoom_head(release: SegmentRelease, page_bytes: int | None, width: int) -> Line:
    """The segment, its size, its blocks and the size of its pages."""
    segment = release.segment
    words = f" Segment {segment.address:#x}  {format_bytes(segment.size_bytes)}"
    words += f"  {counted(len(segment.blocks), 'block')}"
    if segment.is_expandable and page_bytes:
        words += f"  pages of {format_bytes(page_bytes)}"
    return ((fit(words, width), "head"),)


def draw_zoom_row(row: ZoomRow, runs: Sequence[Run], selected: range, width: int, appearance: Appearance) -> Line:
    """Address of the page or line, the number of the page, cells with names."""
    room = max(1, width - CELLS_AT)
    shown = part_of_runs(runs, row.line * room, room)
    address = row.release.segment.address + row.chunk.start
    size = row.chunk.end - row.chunk.start
    page = f" {format_bytes_short(size):>6} {f'p{row.chunk.number}' if row.is_page else '':>6} "
    left = f"{address:012x}{page}" if row.line == 0 else ""
    return join(
        (
            (">" if selected else " ", "title"),
            (fit(left, CELLS_AT - 1), "dim"),
            *draw_runs(shown, appearance, selected, lambda block: _name(row.release, block)),
        )
    )


def _name(release: SegmentRelease, block: int) -> str:
    blocker = blocker_of(release, release.segment.blocks[block])
    return blocker.owner.name if blocker else ""
