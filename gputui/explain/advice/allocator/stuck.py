"""Free memory that `empty_cache()` cannot return: in which segments, beside which blocks, and what would help."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from gputui.explain.advice.allocator.expandable import caution, setting
from gputui.explain.advice.situation import Situation
from gputui.explain.advice.thresholds import (
    SCATTERED_LIVE_SHARE,
    SCATTERED_SEGMENTS,
    SCATTERED_SHARE,
    STUCK_BYTES,
    STUCK_SHARE,
    WINDOW_POINTS,
)
from gputui.explain.memory.release import DEFAULT_POOL
from gputui.explain.owners.names import counted, listed, name_of
from gputui.explain.owners.not_yet import waits_for_key, what_names
from gputui.model.attached.analysis import Blocker, Finding, SegmentRelease
from gputui.model.attached.target import Greeting
from gputui.model.attached.tensors import CATEGORIES, Category
from gputui.model.weight import Weight
from gputui.units import format_bytes, format_clock

SEGMENTS_SHOWN = 3
HOLDERS_SHOWN = 3


@dataclass
class _Holder:
    """Blocks of one family of names; `freed_bytes` is how much more `empty_cache()` would return without them all."""

    name: str
    category: Category
    blocks: list[Blocker] = field(default_factory=list)
    freed_bytes: int = 0
    stuck_bytes: int = 0

    @property
    def live_bytes(self) -> int:
        return sum(blocker.block.size_bytes for blocker in self.blocks)


def stuck(situation: Situation) -> Finding | None:
    """Free memory is stuck beside live blocks."""
    layout = situation.device.layout
    if layout is None:
        return None
    stuck_bytes = layout.release.stuck_bytes
    if stuck_bytes < max(STUCK_BYTES, STUCK_SHARE * layout.release.composition.reserved_bytes):
        return None
    segments = sorted(layout.release.stuck_segments, key=lambda s: -s.stuck_bytes)
    holders = _holders(segments)
    is_unknown = bool(holders) and holders[0].category is Category.UNATTRIBUTED
    is_not_yet = is_unknown and not layout.is_searched
    moment = situation.moment
    return Finding(
        weight=Weight.ADVICE,
        title=f"{format_bytes(stuck_bytes)} of free memory is stuck in {counted(len(segments), 'segment')}.",
        evidence=(*map(_segment, segments[:SEGMENTS_SHOWN]), *map(_hold, holders[:HOLDERS_SHOWN])),
        remedy=what_names(moment) if is_not_yet else _remedy(holders, moment.greeting),
        needs_look=is_not_yet and waits_for_key(moment),
        bytes=stuck_bytes,
        screen="map",
        addresses=tuple(s.segment.address for s in segments),
        owners=tuple(holder.name for holder in holders),
    )


def scattered(situation: Situation) -> Finding | None:
    """Small blocks keep many large segments: what expandable segments are for."""
    layout = situation.device.layout
    if layout is None or layout.settings is None or layout.settings.is_expandable:
        return None
    held = sorted(filter(_is_scattered, layout.release.stuck_segments), key=lambda s: -s.stuck_bytes)
    reserved = layout.release.composition.reserved_bytes
    stuck_bytes = sum(segment.stuck_bytes for segment in held)
    if len(held) < SCATTERED_SEGMENTS or stuck_bytes < max(STUCK_BYTES, SCATTERED_SHARE * reserved):
        return None
    size = sum(segment.segment.size_bytes for segment in held)
    counters = situation.device.statistics
    holders = _holders(held)
    live = (
        f"Of their {format_bytes(size)} only {format_bytes(size - stuck_bytes)} is in use, by"
        f" {counted(sum(len(s.blockers) for s in held), 'block')}: {listed(holder.name for holder in holders)}."
    )
    pieces = (
        f"The rest is {stuck_bytes / reserved:.0%} of the reserved memory, in pieces of at most"
        f" {format_bytes(max(map(_largest_free, held)))}."
    )
    return Finding(
        weight=Weight.PROBLEM if counters.num_ooms or counters.num_alloc_retries else Weight.ADVICE,
        title=f"Fragmentation: {len(held)} large segments are held by small blocks, with {format_bytes(stuck_bytes)}"
        " stuck in them.",
        evidence=(live, pieces),
        remedy=f"Start the program with {setting(situation.moment.greeting)}: then pages between live blocks can be"
        f" released and reused. {caution(situation.moment.greeting)}",
        bytes=stuck_bytes,
        screen="map",
        addresses=tuple(segment.segment.address for segment in held),
        owners=tuple(holder.name for holder in holders),
    )


def split(situation: Situation) -> Finding | None:
    """Fragmentation by the counters alone, if a device that was full has allocated since the last look."""
    layout, counters = situation.device.layout, situation.device.statistics
    is_new = layout is None or layout.statistics.generation != counters.generation
    if not is_new or not (counters.num_alloc_retries or counters.num_ooms):
        return None
    # Pieces come and go within a step: only those in each of the last readings count.
    in_pieces = min(point.statistics.inactive_split_bytes for point in situation.counters.newest(WINDOW_POINTS))
    stuck_then = layout.release.composition.stuck_bytes if layout else 0
    if in_pieces - stuck_then < max(STUCK_BYTES, SCATTERED_SHARE * counters.reserved_bytes):
        return None
    last_look = (
        f"The last look was at {format_clock(situation.moment.look_time)}" if layout else "There was no look yet"
    )
    evidence = (
        f"The free pieces (inactive_split_bytes) lie between live blocks, where a larger request does not fit."
        f" {last_look}, so which blocks these are is not known."
    )
    return Finding(
        weight=Weight.PROBLEM,
        title=f"Fragmentation: {format_bytes(counters.inactive_split_bytes)} is free, but in pieces.",
        evidence=(evidence,),
        remedy=f"If it stays like this, start the program with {setting(situation.moment.greeting)}."
        f" {caution(situation.moment.greeting)}",
        bytes=counters.inactive_split_bytes,
    )


def _remedy(holders: list[_Holder], greeting: Greeting) -> str:
    remedy = CATEGORIES[holders[0].category].stuck if holders else ""
    return remedy.replace("{setting}", setting(greeting)).replace("{caution}", caution(greeting))


def _is_scattered(release: SegmentRelease) -> bool:
    segment = release.segment
    live = sum(blocker.block.size_bytes for blocker in release.blockers)
    is_plain = not segment.is_expandable and not segment.is_small and segment.pool_id == DEFAULT_POOL
    return is_plain and live <= SCATTERED_LIVE_SHARE * segment.size_bytes


def _largest_free(release: SegmentRelease) -> int:
    live = {blocker.block.address for blocker in release.blockers}
    return max((b.size_bytes for b in release.segment.blocks if b.address not in live), default=0)


def _holders(segments: list[SegmentRelease]) -> list[_Holder]:
    """The families of blocks that alone keep segments or pages, most freed bytes first; all families if none does."""
    holders: dict[str, _Holder] = {}
    for segment in segments:
        members: dict[str, list[Blocker]] = defaultdict(list)
        for blocker in _holding(segment):
            members[name_of(blocker.owner)].append(blocker)
        for name, blockers in members.items():
            holder = holders.setdefault(name, _Holder(name, blockers[0].owner.category))
            holder.blocks += blockers
            holder.stuck_bytes += segment.stuck_bytes // len(members)
            holder.freed_bytes += _freed_without(segment, blockers, is_alone=len(members) == 1)
    alone = [holder for holder in holders.values() if holder.freed_bytes] or list(holders.values())
    return sorted(alone, key=lambda holder: (-holder.freed_bytes, -holder.stuck_bytes, holder.name))


def _holding(release: SegmentRelease) -> list[Blocker]:
    """The blocks that keep a segment: all of a native one; of an expandable one, those that alone keep a page."""
    alone = [blocker for blocker in release.blockers if blocker.releases_bytes]
    return alone if alone and release.segment.is_expandable else list(release.blockers)


def _freed_without(release: SegmentRelease, blockers: list[Blocker], *, is_alone: bool) -> int:
    if release.segment.is_expandable:
        return sum(blocker.releases_bytes for blocker in blockers)
    return release.segment.size_bytes if is_alone else 0


def _segment(release: SegmentRelease) -> str:
    live = sum(blocker.block.size_bytes for blocker in release.blockers)
    blockers = sorted(_holding(release), key=lambda blocker: -blocker.block.size_bytes)
    return (
        f"Segment {release.segment.address:#x} ({format_bytes(release.segment.size_bytes)}):"
        f" {format_bytes(release.stuck_bytes)} stuck beside {format_bytes(live)} of"
        f" {listed(blocker.owner.name or name_of(blocker.owner) for blocker in blockers)}."
    )


def _hold(holder: _Holder) -> str:
    what = f"{holder.name} ({counted(len(holder.blocks), 'block')}, {format_bytes(holder.live_bytes)})"
    if holder.freed_bytes:
        return f"Freeing {what} would let empty_cache() return {format_bytes(holder.freed_bytes)} more."
    return f"{what} shares its segments with other live blocks: freeing it alone returns nothing."
