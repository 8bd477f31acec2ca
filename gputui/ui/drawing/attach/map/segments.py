"""The allocator's map as rows: segments in groups that never share memory, drawn to scale within a group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gputui.explain.memory.parts import STATES
from gputui.explain.memory.release import DEFAULT_POOL
from gputui.explain.owners.names import counted
from gputui.model.attached.analysis import SegmentRelease
from gputui.model.attached.moment import DeviceLayout
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.attach.map.cells import (
    LIVE,
    OTHERS,
    SMALL_BLOCKER,
    CellKind,
    Run,
    draw_runs,
    part_of_runs,
)
from gputui.ui.drawing.attach.map.groups import SEGMENT_ORDER_BY_NAME, Heading, SegmentRow, Sorting, name_of
from gputui.ui.drawing.line import Line, Piece, fill_lines, fit, join, spread, width_of
from gputui.units import format_bytes, format_bytes_short

CELLS_AT = 28
"""Cells for the cursor's mark, address, size and stuck bytes, in front of the cells of the segment."""

NOTE_FROM_CELLS = 16
"""Blank cells after a segment that are enough for a note."""


def draw_map_head(sorting: Sorting, width: int, appearance: Appearance) -> Line:
    """Column titles, the sorted one marked."""
    order = SEGMENT_ORDER_BY_NAME[sorting.order]
    mark = appearance.glyphs.down if order.is_largest_first != sorting.is_reversed else appearance.glyphs.up
    marks = {name: mark if name == sorting.order else "" for name in SEGMENT_ORDER_BY_NAME}
    titles = f" {fit('Address' + marks['address'], 12)} {fit('Size' + marks['size'], 6, '>')}"
    titles += f" {fit('Stuck' + marks['stuck'], 6, '>')} "
    extra = f"by releasable bytes{mark}" if sorting.order == "releasable" else ""
    return ((fit(titles + extra, width), "head"),)


def order_at(x: int) -> str | None:
    """The order whose title stands at cell `x` of the head."""
    ends = ((14, "address"), (21, "size"), (CELLS_AT, "stuck"))
    return next((name for end, name in ends if x < end), None)


def draw_heading(heading: Heading, width: int) -> Line:
    """The group's name, as many of its sums as fit, and the bytes of a cell."""
    releases = heading.releases
    sums: list[Piece] = [
        (format_bytes(sum(release.segment.size_bytes for release in releases)), "plain"),
        *_sum("stuck", sum(release.stuck_bytes for release in releases), "part-stuck"),
        *_sum("releasable", sum(release.releasable_bytes for release in releases)),
        *_sum("kept", sum(release.held_bytes for release in releases)),
        (f"in {counted(len(releases), 'segment')}", "plain"),
    ]
    scale = f" cell {format_bytes(heading.cell_bytes)} " if heading.cell_bytes else ""
    title = fit(heading.title, min(len(heading.title), max(12, width - len(scale) - 12)))
    pieces: list[Piece] = [(title, "dim" if heading.title.startswith(" ") else "title")]
    for words, role in sums:
        if width_of(pieces) + len(words) + 2 + len(scale) <= width:
            pieces.append((f"  {words}", role))
    return spread(pieces, [(scale, "dim")], width)


def _sum(word: str, count: int, role: str = "plain") -> list[Piece]:
    return [(f"{word} {format_bytes(count)}", role)] if count else []


def draw_segment(
    row: SegmentRow, runs: Sequence[Run], selected: range, width: int, appearance: Appearance, *, is_current: bool
) -> Line:
    """Address, size, stuck bytes, cells, and a note where there is room; `selected` are the cursor's cells."""
    blank = max(0, width - CELLS_AT - row.shown)
    note = f" {note_of(row.release)}" if blank >= NOTE_FROM_CELLS else ""
    return join(
        (
            (">" if is_current else " ", "title"),
            *(_columns(row.release, is_current=is_current) if row.line == 0 else [(" " * (CELLS_AT - 1), "plain")]),
            *draw_runs(part_of_runs(runs, row.line * row.room, row.room), appearance, selected),
            (fit(note, blank, ellipsis=appearance.glyphs.ellipsis), "dim"),
        )
    )


def _columns(release: SegmentRelease, *, is_current: bool) -> Iterable[Piece]:
    segment = release.segment
    stuck = format_bytes_short(release.stuck_bytes) if release.stuck_bytes else ""
    yield (f"{segment.address:012x}", "cursor" if is_current else "dim")
    yield (f" {format_bytes_short(segment.size_bytes):>6}", "plain")
    yield (f" {stuck:>6} ", "part-stuck")


def note_of(release: SegmentRelease) -> str:
    """Why empty_cache() would keep the segment, or that it would release it; "" where it is simply in use."""
    if release.held_by:
        return f"kept by {release.held_by}" if release.segment.pool_id == DEFAULT_POOL else ""
    if release.releasable_bytes == release.segment.size_bytes:
        return "releasable"
    if not release.stuck_bytes or not release.blockers:
        return ""
    largest = max(release.blockers, key=lambda blocker: blocker.block.size_bytes)
    others = len(release.blockers) - 1
    return f"held by {name_of(largest)}" + (f" and {others} more" if others else "")


def kinds_of(layout: DeviceLayout) -> tuple[CellKind, ...]:
    """The kinds of bytes in this layout, for the legend."""
    present = {kind: layout.by_category.get(category, 0) for category, kind in LIVE.items()} | {
        kind: STATES[key].bytes_in(layout.release.composition) for key, kind in OTHERS.items()
    }
    return tuple(kind for kind, count in present.items() if count)


def draw_map_legend(kinds: Sequence[CellKind], width: int) -> list[Line]:
    """What the letters mean; in short words where the long ones do not fit, then in two lines."""
    blocker = (SMALL_BLOCKER, "poor", "small live block in free space")
    long = [_entry(kind.letter, kind.role, kind.word) for kind in kinds]
    short = [_entry(kind.letter, kind.role, kind.short) for kind in kinds]
    for entries in ([*long, _entry(*blocker)], [*short, _entry(*blocker)], short):
        if sum(map(width_of, entries)) <= width:
            return [join(piece for entry in entries for piece in entry)]
    return fill_lines([*short, _entry(*blocker)], width)


def _entry(letter: str, role: str, word: str) -> Line:
    return ((" ", "plain"), (letter, role), (f" {word}", "dim"))
