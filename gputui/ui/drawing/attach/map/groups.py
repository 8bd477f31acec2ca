"""The segments of a device in groups that never share memory, sorted, as rows of the map."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from gputui.explain.memory.release import DEFAULT_POOL
from gputui.model.attached.allocator import Block
from gputui.model.attached.analysis import Blocker, SegmentRelease
from gputui.model.attached.moment import DeviceLayout
from gputui.units import format_bytes

SMALLEST_SHARE = 4
"""Segments below 1/4 of the largest get a scale of their own: on the larger one, their blocks would be too small."""

LINES_OF_FEW = 16
"""Up to this many segments of one scale share this many lines; where there are more, every segment has one line."""

CELLS_PER_BLOCK = 2
"""Cells that a block should have on average."""


@dataclass(frozen=True, slots=True)
class SegmentOrder:
    """One way to sort segments: the letter after `o`, and the words in the menu."""

    name: str
    letter: str
    title: str
    value: Callable[[SegmentRelease], int]
    is_largest_first: bool = True


SEGMENT_ORDERS = (
    SegmentOrder("address", "a", "address", lambda release: release.segment.address, is_largest_first=False),
    SegmentOrder("size", "z", "size", lambda release: release.segment.size_bytes),
    SegmentOrder("stuck", "k", "stuck bytes", lambda release: release.stuck_bytes),
    SegmentOrder("releasable", "e", "releasable bytes", lambda release: release.releasable_bytes),
)
SEGMENT_ORDER_BY_NAME = {order.name: order for order in SEGMENT_ORDERS}


@dataclass(frozen=True, slots=True)
class Sorting:
    """The order of groups, and of segments within them."""

    order: str = "address"
    is_reversed: bool = False


Releases = tuple[SegmentRelease, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Segments that can serve the same requests: one pool, small or large, on one stream."""

    pool_id: tuple[int, int]
    stream: int
    is_small: bool
    releases: Releases

    @property
    def title(self) -> str:
        """Pool and stream, with the holder of a private pool."""
        size = "Small" if self.is_small else "Large"
        return f"{size} pool{self._private}, {stream_name(self.stream)}"

    @property
    def _private(self) -> str:
        if self.pool_id == DEFAULT_POOL:
            return ""
        holder = next((release.held_by for release in self.releases if release.held_by), "nobody")
        return f" {self.pool_id[0]},{self.pool_id[1]} of {holder.removeprefix('torch.cuda.')}"

    def bytes_of(self, order: SegmentOrder) -> int:
        """The value that groups are sorted by."""
        return sum(order.value(release) for release in self.releases)

    @property
    def scales(self) -> list[tuple[int, Releases]]:
        """Segments that share a scale, as (bytes of the largest, segments in order), ordered by first segment."""
        scales: list[tuple[int, Releases]] = []
        rest = self.releases
        while rest:
            largest = max(release.segment.size_bytes for release in rest)
            smallest = largest / SMALLEST_SHARE
            scales.append((largest, tuple(release for release in rest if release.segment.size_bytes >= smallest)))
            rest = tuple(release for release in rest if release.segment.size_bytes < smallest)
        return sorted(scales, key=lambda scale: self.releases.index(scale[1][0]))


@dataclass(frozen=True, slots=True)
class Heading:
    """The line above a group, or above its segments of one scale, with the bytes of a cell there."""

    title: str
    releases: Releases
    cell_bytes: float | None


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """One line of a segment: `room` of its `cells` cells, starting at `line * room`."""

    release: SegmentRelease
    cells: int
    line: int
    room: int

    @property
    def shown(self) -> int:
        """How many cells this line has."""
        return min(self.room, self.cells - self.line * self.room)

    def cells_of_block(self, block: int) -> range:
        """The cells of this line that a block overlaps."""
        size, left = self.release.segment.size_bytes, self.line * self.room
        start = self.release.segment.blocks[block].address - self.release.segment.address
        last = start + self.release.segment.blocks[block].size_bytes - 1
        first, end = start * self.cells // size - left, last * self.cells // size + 1 - left
        return range(max(0, first), max(0, min(end, self.shown)))

    def address_at(self, cell: int) -> int:
        """The byte in the middle of a cell of this line."""
        segment = self.release.segment
        place = self.line * self.room + max(0, min(cell, self.shown - 1))
        return segment.address + (2 * place + 1) * segment.size_bytes // (2 * self.cells)


def stream_name(stream: int) -> str:
    """The name of a stream: "default stream", or its handle."""
    return "default stream" if stream == 0 else f"stream {stream:#x}"


def groups_of(layout: DeviceLayout, sorting: Sorting = Sorting()) -> tuple[Group, ...]:
    """The device's segments, grouped and sorted.

    Sorted by address, default pools come first, large before small; otherwise the group with the largest sum.
    """
    by_group: dict[tuple[tuple[int, int], int, bool], list[SegmentRelease]] = defaultdict(list)
    for release in layout.release.segments:
        segment = release.segment
        by_group[segment.pool_id, segment.stream, segment.is_small].append(release)
    order = SEGMENT_ORDER_BY_NAME[sorting.order]
    is_descending = order.is_largest_first != sorting.is_reversed
    groups = [
        Group(*key, _sorted(releases, order, is_descending=is_descending)) for key, releases in sorted(by_group.items())
    ]
    if order.is_largest_first:
        groups.sort(key=lambda group: group.bytes_of(order), reverse=is_descending)
    return tuple(groups)


def _sorted(releases: Iterable[SegmentRelease], order: SegmentOrder, *, is_descending: bool) -> Releases:
    by_address = sorted(releases, key=lambda release: release.segment.address)
    return tuple(sorted(by_address, key=order.value, reverse=is_descending))


def map_rows(groups: Iterable[Group], room: int) -> tuple[Heading | SegmentRow, ...]:
    """Headings and segments from top to bottom, `room` cells in a line."""
    return tuple(row for group in groups for row in _rows_of(group, room))


def _rows_of(group: Group, room: int) -> Iterator[Heading | SegmentRow]:
    scales = [(largest, largest / (room * _lines(releases, room)), releases) for largest, releases in group.scales]
    yield Heading(group.title, group.releases, scales[0][1] if len(scales) == 1 else None)
    for largest, cell_bytes, releases in scales:
        if len(scales) > 1:
            yield Heading(f"  up to {format_bytes(largest)}", releases, cell_bytes)
        for release in releases:
            cells = max(1, round(release.segment.size_bytes / cell_bytes))
            yield from (SegmentRow(release, cells, line, room) for line in range(-(-cells // room)))


def _lines(releases: Releases, room: int) -> int:
    """Lines for the largest segment of a scale: enough for its blocks, where there are few segments."""
    blocks = max(len(release.segment.blocks) for release in releases)
    return max(1, min(-(-CELLS_PER_BLOCK * blocks // room), LINES_OF_FEW // len(releases)))


def blocker_of(release: SegmentRelease, block: Block) -> Blocker | None:
    """The blocker for a live block, None for any other."""
    number = bisect_left(release.blockers, block.address, key=lambda blocker: blocker.block.address)
    blocker = release.blockers[number] if number < len(release.blockers) else None
    return blocker if blocker and blocker.block.address == block.address else None


def name_of(blocker: Blocker) -> str:
    """The owner's name, or its category where it has none."""
    return blocker.owner.name or blocker.owner.category.words
