"""A segment as cells: what takes most of a cell decides its letter and colour; live blocks have capital letters.

The first cell of a block shows its letter, the others a fill, so that two neighbours of the same kind can be
distinguished.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from gputui.explain.memory.parts import STATES
from gputui.explain.memory.release import DEFAULT_POOL
from gputui.model.attached.allocator import BlockState
from gputui.model.attached.analysis import SegmentRelease
from gputui.model.attached.tensors import CATEGORIES
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.line import Line, Piece, fit, join

ROUNDING_SHOWN = 0.1
"""Rounding is drawn where it is at least this share of a block."""

LABEL_FROM_CELLS = 8
"""A run of at least this many cells has room for a name."""


@dataclass(frozen=True, eq=False)
class CellKind:
    """What bytes of a segment are: a category of live blocks, or a state of free ones. Compared by identity."""

    key: str
    letter: str
    word: str
    short: str
    is_live: bool = False

    @property
    def role(self) -> str:
        """Live cells are filled, free ones are not."""
        return f"part-{self.key} filled" if self.is_live else f"part-{self.key}"


LIVE = {
    category: CellKind(category.value, facts.letter, category.words, facts.short, is_live=True)
    for category, facts in CATEGORIES.items()
}
OTHERS = {
    key: CellKind(key, facts.letter, facts.words, facts.short, is_live=key == "rounding")
    for key, facts in STATES.items()
}
ROUNDING, PENDING, STUCK, PRIVATE, RELEASABLE = map(
    OTHERS.__getitem__, ("rounding", "pending", "stuck", "private", "releasable")
)

SMALL_BLOCKER = "!"
"""Stands in a cell that is mostly free but holds a live block that no cell shows."""


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes of one kind, from `start` to `end` as offsets into the segment; `block` is the block's index."""

    start: int
    end: int
    kind: CellKind
    block: int


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring cells that show one span."""

    kind: CellKind
    block: int
    cells: int
    has_small_blocker: bool = False


def spans_of(release: SegmentRelease) -> tuple[Span, ...]:
    """The whole segment in order; a free block of an expandable segment may be partly releasable."""
    blockers = iter(release.blockers)
    spans: list[Span] = []
    for place, block in enumerate(release.segment.blocks):
        start = block.address - release.segment.address
        end = start + block.size_bytes
        if block.state is BlockState.ACTIVE_ALLOCATED:
            kind = LIVE[next(blockers).owner.category]
            is_rounding_shown = block.size_bytes - block.requested_bytes >= ROUNDING_SHOWN * block.size_bytes
            asked = start + block.requested_bytes if is_rounding_shown else end
            spans += [Span(start, asked, kind, place), Span(asked, end, ROUNDING, place)]
        elif block.state is BlockState.ACTIVE_PENDING_FREE:
            spans.append(Span(start, end, PENDING, place))
        else:
            spans += _free_spans(release, start, end, place)
    return tuple(span for span in spans if span.end > span.start)


def _free_spans(release: SegmentRelease, start: int, end: int, place: int) -> Iterator[Span]:
    """A free block, split where the range that would be released begins and ends; it meets at most one range."""
    stays = PRIVATE if release.held_by and release.segment.pool_id != DEFAULT_POOL else STUCK
    origin = release.segment.address
    number = bisect_right(release.ranges, origin + start, key=lambda span: span[1])
    first, last = release.ranges[number] if number < len(release.ranges) else (origin + end, origin + end)
    goes_from, goes_to = (max(start, min(end, address - origin)) for address in (first, last))
    yield Span(start, goes_from, stays, place)
    yield Span(goes_from, goes_to, RELEASABLE, place)
    yield Span(goes_to, end, stays, place)


def runs_to_scale(spans: Sequence[Span], size_bytes: int, cells: int) -> tuple[Run, ...]:
    """The segment in exactly `cells` cells of equal size; a cell shows the kind that takes most of it."""
    shown: list[tuple[Span, set[int]]] = []
    place = 0
    for cell in range(cells):
        first = cell * size_bytes // cells
        end = max(first + 1, (cell + 1) * size_bytes // cells)  # a segment of fewer bytes than cells
        while spans[place].end <= first:
            place += 1
        shown.append(_most_of(spans, place, first, end))
    seen = {span.block for span, _ in shown}
    runs: list[Run] = []
    last: tuple[Span, bool] | None = None
    for span, live in shown:
        now = (span, not span.kind.is_live and not live <= seen)
        if now == last and not now[1]:
            runs[-1] = Run(span.kind, span.block, runs[-1].cells + 1)
        else:
            runs.append(Run(span.kind, span.block, 1, has_small_blocker=now[1]))
        last = now
    return tuple(runs)


def _most_of(spans: Sequence[Span], place: int, first: int, end: int) -> tuple[Span, set[int]]:
    """The largest span of the kind that takes most of [first, end), and the live blocks in those bytes."""
    shares: dict[CellKind, int] = {}
    largest: dict[CellKind, tuple[int, Span]] = {}
    live: set[int] = set()
    while place < len(spans) and spans[place].start < end:
        span = spans[place]
        share = min(end, span.end) - max(first, span.start)
        shares[span.kind] = shares.get(span.kind, 0) + share
        if span.kind not in largest or share > largest[span.kind][0]:
            largest[span.kind] = (share, span)
        if span.kind.is_live:
            live.add(span.block)
        place += 1
    kind = max(shares, key=shares.__getitem__)
    return largest[kind][1], live


def runs_of_all(spans: Sequence[Span], first: int, end: int, cells: int) -> tuple[Run, ...]:
    """Every span between two offsets with at least one cell; the other cells are shared in proportion to bytes.

    `cells` must be at least the number of spans there.
    """
    sizes = [min(end, span.end) - max(first, span.start) for span in spans]
    spare = cells - len(spans)
    ends = [place + round(spare * total / (end - first)) for place, total in enumerate(accumulate(sizes), 1)]
    starts = [0, *ends[:-1]]
    return tuple(
        Run(span.kind, span.block, stop - start) for span, start, stop in zip(spans, starts, ends, strict=True)
    )


def part_of_runs(runs: Sequence[Run], first: int, cells: int) -> tuple[Run, ...]:
    """The `cells` cells from `first` on."""
    part, at = [], 0
    for run in runs:
        inside = min(at + run.cells, first + cells) - max(at, first)
        if inside > 0:
            part.append(Run(run.kind, run.block, inside, run.has_small_blocker))
        at += run.cells
    return tuple(part)


def draw_runs(
    runs: Sequence[Run],
    appearance: Appearance,
    selected: range = range(0),
    name_of: Callable[[int], str] = lambda _: "",
) -> Line:
    """The runs as pieces; the cells of `selected` have the cursor, in brackets where there is room.

    `name_of` returns a block's name, which is written into a run that is long enough.
    """
    pieces: list[Piece] = []
    at = 0
    for run in runs:
        text = _text(run, appearance, name_of(run.block) if run.cells >= LABEL_FROM_CELLS and run.kind.is_live else "")
        role = "poor" if run.has_small_blocker else run.kind.role
        first, end = max(0, selected.start - at), max(0, selected.stop - at)
        pieces += [(text[:first], role), (text[first:end], "cursor"), (text[max(first, end) :], role)]
        at += run.cells
    return _bracketed(join(pieces), len(selected))


def _text(run: Run, appearance: Appearance, name: str) -> str:
    if run.has_small_blocker:
        return SMALL_BLOCKER
    fill = ("=" if appearance.is_ascii else "─") if run.kind.is_live else ("." if appearance.is_ascii else "·")
    if not name:
        return run.kind.letter + fill * (run.cells - 1)
    room = run.cells - 3
    shown = fit(name, room, ellipsis=appearance.glyphs.ellipsis).rstrip() if len(name) > room else name
    return f"{run.kind.letter} {shown} ".ljust(run.cells, fill)[: run.cells]


def _bracketed(line: Line, cells: int) -> Line:
    """The cursor's cells with a bracket at both ends, and the letter after the first."""
    if cells < 3:
        return line
    return tuple((f"[{text[: cells - 2]}]", role) if role == "cursor" else (text, role) for text, role in line)
