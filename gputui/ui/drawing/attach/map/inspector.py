"""Every fact about one block, and what would free its memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from gputui.explain.memory.release import DEFAULT_POOL
from gputui.model.attached.allocator import Block, BlockState
from gputui.model.attached.analysis import Blocker, SegmentRelease
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.attach.map.cells import LIVE, CellKind, spans_of
from gputui.ui.drawing.attach.map.groups import blocker_of, name_of
from gputui.ui.drawing.line import Line, Piece, fit, join, width_of, wrap
from gputui.units import format_bytes

HOLDERS_SHOWN = 3
BESIDE_TO_WIDTH = 60
"""Up to this width the inspection is a column beside the map; a wider inspection lies below the map."""

STATES = {
    BlockState.ACTIVE_ALLOCATED: "live",
    BlockState.ACTIVE_PENDING_FREE: "freed, waiting for another stream",
    BlockState.INACTIVE: "free",
}


@dataclass(frozen=True, slots=True)
class Inspection:
    """A block's letter and name, facts as (label, value), and sentences with their roles."""

    letter: str
    role: str
    name: str
    facts: tuple[tuple[str, str], ...]
    sentences: tuple[Piece, ...]


def inspect(release: SegmentRelease, place: int, page_bytes: int | None) -> Inspection:
    """The block at an index of its segment; an expandable segment shrinks by `page_bytes`."""
    block = release.segment.blocks[place]
    blocker = blocker_of(release, block)
    kinds = [LIVE[blocker.owner.category]] if blocker else _kinds_of_free(release, place)
    return Inspection(
        letter=kinds[0].letter,
        role=kinds[0].role,
        name=name_of(blocker) if blocker else " and ".join(kind.word for kind in kinds),
        facts=tuple(
            (label, value)
            for label, value in (*_block_facts(release, place), *_tensor_facts(blocker), *_segment_facts(release))
            if value
        ),
        sentences=tuple(_release_sentences(release, block, blocker, kinds, page_bytes)),
    )


def _kinds_of_free(release: SegmentRelease, place: int) -> list[CellKind]:
    return list(dict.fromkeys(span.kind for span in spans_of(release) if span.block == place))


def _block_facts(release: SegmentRelease, place: int) -> list[tuple[str, str]]:
    block = release.segment.blocks[place]
    site = block.site
    is_asked = block.state is not BlockState.INACTIVE  # a free block keeps the size of its last request
    return [
        ("address", f"{block.address:#x}"),
        ("size", _exactly(block.size_bytes)),
        ("requested", _requested(block) if is_asked else ""),
        ("state", STATES[block.state]),
        ("call site", site.words if site else ""),
        ("block", f"{place + 1} of {len(release.segment.blocks)}"),
    ]


def _tensor_facts(blocker: Blocker | None) -> list[tuple[str, str]]:
    if blocker is None:
        return []
    owner = blocker.owner
    shape = f"({', '.join(map(str, owner.shape))}{',' if len(owner.shape) == 1 else ''})" if owner.type else ""
    return [
        ("category", owner.category.words),
        ("tensor", " ".join(filter(None, (owner.type, shape, owner.dtype)))),
        ("saved by", owner.saved_by),
        ("module", owner.module),
        ("kept by", owner.keeper.facts.words),
    ]


def _segment_facts(release: SegmentRelease) -> list[tuple[str, str]]:
    segment = release.segment
    size = "small" if segment.is_small else "large"
    private = "" if segment.pool_id == DEFAULT_POOL else f", private {segment.pool_id[0]},{segment.pool_id[1]}"
    kind = ", expandable" if segment.is_expandable else ""
    stuck = f", {format_bytes(release.stuck_bytes)} stuck" if release.stuck_bytes else ", nothing stuck"
    return [
        ("stream", f"{segment.stream:#x}" if segment.stream else "default"),
        ("pool", size + private),
        ("segment", f"{segment.address:#x}, {format_bytes(segment.size_bytes)}{kind}{stuck}"),
    ]


def _requested(block: Block) -> str:
    added = block.size_bytes - block.requested_bytes
    return f"{block.requested_bytes:,} B, {format_bytes(added)} of rounding" if added else "all of it"


def _exactly(count: int) -> str:
    return f"{format_bytes(count)} ({count:,} B)" if count >= 1024 else format_bytes(count)


def _release_sentences(
    release: SegmentRelease, block: Block, blocker: Blocker | None, kinds: Sequence[CellKind], page_bytes: int | None
) -> list[Piece]:
    """What holds the memory, and what would free it."""
    if blocker:
        return [_release_of_live(release, blocker)]
    return [piece for kind in kinds for piece in _release_of_free(release, block, kind, page_bytes)]


def _release_of_live(release: SegmentRelease, blocker: Blocker) -> Piece:
    if blocker.releases_bytes:
        more = format_bytes(blocker.releases_bytes)
        return (f"Freeing it would let empty_cache() return {more} more.", "good")
    if release.held_by:
        return (f"Freeing it returns nothing: {_keeper(release)}.", "fair")
    whole = "its pages" if release.segment.is_expandable else "its segment"
    others = len(release.blockers) - 1
    if others:
        what = "other live blocks hold" if others > 1 else "another live block holds"
        return (f"Freeing it returns nothing: {what} the rest of {whole}.", "fair")
    return (
        f"Freeing it returns nothing: freed blocks in {whole} are still waiting for another stream.",
        "fair",
    )


def _release_of_free(release: SegmentRelease, block: Block, kind: CellKind, page_bytes: int | None) -> list[Piece]:
    if kind.key == "releasable":
        return [("empty_cache() returns it.", "good")]
    if kind.key == "pending":
        return [("It becomes free when the work on another stream that uses it has finished.", "fair")]
    if release.held_by:
        then = (
            f"; otherwise {format_bytes(release.held_bytes)} of the segment would be returned"
            if release.held_bytes
            else ""
        )
        return [(f"empty_cache() does not return it: {_keeper(release)}{then}.", "fair")]
    holders = holders_of(release, block, page_bytes)
    if not holders:
        return [("Freed blocks that are waiting for another stream hold it.", "fair")]
    named = ", ".join(
        f"{LIVE[blocker.owner.category].letter} {name_of(blocker)} ({format_bytes(blocker.block.size_bytes)})"
        for blocker in sorted(holders, key=lambda blocker: -blocker.block.size_bytes)[:HOLDERS_SHOWN]
    )
    more = f" and {len(holders) - HOLDERS_SHOWN} more" if len(holders) > HOLDERS_SHOWN else ""
    return [(f"Stuck: held by {named}{more}.", "poor")]


def _keeper(release: SegmentRelease) -> str:
    if release.segment.pool_id == DEFAULT_POOL:
        return f"{release.held_by} is in progress on this device"
    return f"{release.held_by} keeps its pool"


def holders_of(release: SegmentRelease, block: Block, page_bytes: int | None) -> Sequence[Blocker]:
    """The live blocks that keep a free one: all in a native segment, those on the same pages in an expandable one."""
    if not release.segment.is_expandable or not page_bytes:
        return release.blockers
    origin = release.segment.address
    first = origin + (block.address - origin) // page_bytes * page_bytes
    end = origin + -(-(block.address + block.size_bytes - origin) // page_bytes) * page_bytes
    start = bisect_right(release.blockers, first, key=lambda blocker: blocker.block.address + blocker.block.size_bytes)
    stop = bisect_left(release.blockers, end, key=lambda blocker: blocker.block.address)
    return release.blockers[start:stop]


def draw_inspection(inspection: Inspection, width: int, height: int, appearance: Appearance) -> list[Line]:
    """The inspection in a column, or in lines below the map."""
    if width <= BESIDE_TO_WIDTH:
        return draw_beside(inspection, width, appearance)[:height]
    return draw_below(inspection, width, height, appearance)


def draw_beside(inspection: Inspection, width: int, appearance: Appearance) -> list[Line]:
    """The inspection as a column of `width` cells."""
    lines = [_title(inspection, width, appearance), ((appearance.glyphs.rule * width, "dim"),)]
    for label, value in inspection.facts:
        first, *rest = wrap(value, max(1, width - 12))
        lines.append(join(((fit(label, 12), "dim"), *first)))
        lines += [join(((" " * 12, "dim"), *line)) for line in rest]
    lines.append(())
    return lines + [line for text, role in inspection.sentences for line in wrap(text, width, role)]


def draw_below(inspection: Inspection, width: int, height: int, appearance: Appearance) -> list[Line]:
    """The inspection in at most `height` lines of `width` cells; facts are dropped before sentences."""
    room = width - 2
    sentences = [line for text, role in inspection.sentences for line in wrap(text, room, role)][: max(1, height - 3)]
    facts = _flowed(inspection.facts, room, appearance)[: max(0, height - 1 - len(sentences))]
    return [join(((" ", "plain"), *line)) for line in (_title(inspection, room, appearance), *sentences, *facts)]


def _title(inspection: Inspection, width: int, appearance: Appearance) -> Line:
    name = fit(f" {inspection.name}", width - 3, ellipsis=appearance.glyphs.ellipsis)
    return join(((f" {inspection.letter} ", inspection.role), (name, "title")))


def _flowed(facts: Sequence[tuple[str, str]], width: int, appearance: Appearance) -> list[Line]:
    """As many facts in a line as fit."""
    lines: list[list[Piece]] = [[]]
    for label, value in facts:
        shown = fit(value, width - len(label) - 1, ellipsis=appearance.glyphs.ellipsis).rstrip()
        if lines[-1] and width_of(lines[-1]) + len(label) + len(shown) + 4 > width:
            lines.append([])
        pieces: list[Piece] = [("   ", "plain")] if lines[-1] else []
        lines[-1] += [*pieces, (f"{label} ", "dim"), (shown, "plain")]
    return [join(line) for line in lines]
