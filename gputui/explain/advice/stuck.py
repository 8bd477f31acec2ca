"""What is free and stuck: in which segments, behind whom, and what would free it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from gputui.explain.advice.names import counted, family, listed
from gputui.explain.advice.situation import Situation, clock
from gputui.explain.advice.thresholds import (
    SCATTERED_LIVE_SHARE,
    SCATTERED_SEGMENTS,
    SCATTERED_SHARE,
    STUCK_BYTES,
    STUCK_SHARE,
    WINDOW_POINTS,
)
from gputui.explain.release import DEFAULT_POOL
from gputui.model.analysis import Blocker, Owner, SegmentRelease
from gputui.model.finding import Finding, Weight
from gputui.model.tensors import Category
from gputui.units import format_bytes

EXPANDABLE = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
SEGMENTS_SHOWN = 3
HOLDERS_SHOWN = 3

STAYS = (
    "They stay as long as the training does, so the rest of their segments serves small requests only;"
    f" {EXPANDABLE}, set before the program starts, lets whole pages between them go."
)
DROP = "Delete them, or copy what is needed to the host; then empty_cache() returns the rest."
REMEDIES = {
    Category.PARAMETER: STAYS,
    Category.GRADIENT: STAYS,
    Category.OPTIMIZER_STATE: STAYS,
    Category.BUFFER: STAYS,
    Category.ACTIVATION: "They go with their backward pass, or with the variable that keeps their graph;"
    " then empty_cache() returns the rest.",
    Category.WORKSPACE: "A workspace stays as long as its thread and stream; there is nothing to drop.",
    Category.OTHER: DROP,
    Category.UNATTRIBUTED: "No tensor is known that owns them: a scan of every Python object may find one.",
}
"""What can be done about a segment, by what holds most of it."""
LOOK_FIRST = "This look had no time for the tensors: one on request may name them."

UNKNOWN = "blocks of unknown owners"


@dataclass
class _Holder:
    """Blocks of one family of names; `freed_bytes` is what a release would return more without them all."""

    name: str
    category: Category
    blocks: list[Blocker] = field(default_factory=list)
    freed_bytes: int = 0
    stuck_bytes: int = 0

    @property
    def live_bytes(self) -> int:
        return sum(blocker.block.size_bytes for blocker in self.blocks)


def stuck(situation: Situation) -> Finding | None:
    """What is free and cannot be released, in which segments, and behind whom."""
    layout = situation.device.layout
    if layout is None:
        return None
    parts = layout.release.composition
    if parts.stuck_bytes < max(STUCK_BYTES, STUCK_SHARE * parts.reserved_bytes):
        return None
    segments = sorted((s for s in layout.release.segments if s.stuck_bytes), key=lambda s: -s.stuck_bytes)
    holders = _holders(segments)
    is_named = layout.names_time == situation.moment.look_time
    is_unknown = bool(holders) and holders[0].category is Category.UNATTRIBUTED
    return Finding(
        kind="stuck",
        weight=Weight.ADVICE,
        title=f"{format_bytes(parts.stuck_bytes)} of free memory are stuck in {counted(len(segments), 'segment')}.",
        evidence=(*map(_segment, segments[:SEGMENTS_SHOWN]), *map(_hold, holders[:HOLDERS_SHOWN])),
        remedy=_remedy(holders[0].category, is_named=is_named) if holders else "",
        needs_look=is_unknown and not is_named,
        bytes=parts.stuck_bytes,
        screen="map",
        addresses=tuple(s.segment.address for s in segments),
        owners=tuple(holder.name for holder in holders),
    )


def scattered(situation: Situation) -> Finding | None:
    """Many large segments that small blocks hold: what expandable segments are for."""
    layout = situation.device.layout
    if layout is None or layout.settings is None or layout.settings.is_expandable:
        return None
    held = sorted(filter(_is_scattered, layout.release.segments), key=lambda s: -s.stuck_bytes)
    reserved = layout.release.composition.reserved_bytes
    stuck_bytes = sum(segment.stuck_bytes for segment in held)
    if len(held) < SCATTERED_SEGMENTS or stuck_bytes < max(STUCK_BYTES, SCATTERED_SHARE * reserved):
        return None
    size = sum(segment.segment.size_bytes for segment in held)
    counters = situation.device.statistics
    holders = _holders(held)
    live = (
        f"Of their {format_bytes(size)} only {format_bytes(size - stuck_bytes)} live, in"
        f" {counted(sum(len(s.blockers) for s in held), 'block')}: {listed(holder.name for holder in holders)}."
    )
    pieces = (
        f"That is {stuck_bytes / reserved:.0%} of the reserved memory, in pieces of at most"
        f" {format_bytes(max(map(_largest_free, held)))}."
    )
    return Finding(
        kind="scattered",
        weight=Weight.PROBLEM if counters.num_ooms or counters.num_alloc_retries else Weight.ADVICE,
        title=f"Fragmentation: {len(held)} large segments are held by small blocks, with {format_bytes(stuck_bytes)}"
        " stuck in them.",
        evidence=(live, pieces),
        remedy=f"Start the program with {EXPANDABLE}: then whole pages between live blocks can go, and be used again.",
        bytes=stuck_bytes,
        screen="map",
        addresses=tuple(segment.segment.address for segment in held),
        owners=tuple(holder.name for holder in holders),
    )


def split(situation: Situation) -> Finding | None:
    """Fragmentation by the counters alone, where a device that was full went on since it was looked at."""
    layout, counters = situation.device.layout, situation.device.statistics
    is_new = layout is None or layout.statistics.generation != counters.generation
    if not is_new or not (counters.num_alloc_retries or counters.num_ooms):
        return None
    # Within a step pieces come and go: what counts is there in each of the last readings.
    in_pieces = min(point.statistics.inactive_split_bytes for point in situation.counters[-WINDOW_POINTS:])
    stuck_then = layout.release.composition.stuck_bytes if layout else 0
    if in_pieces - stuck_then < max(STUCK_BYTES, SCATTERED_SHARE * counters.reserved_bytes):
        return None
    then = f"was looked at {clock(situation.moment.look_time)}" if layout else "was not looked at"
    said = (
        f"inactive_split_bytes is {format_bytes(counters.inactive_split_bytes)}, and has been in the last readings: of"
        f" no use to a larger request. The process {then}, so what holds it now is not known."
    )
    return Finding(
        kind="split",
        weight=Weight.PROBLEM,
        title=f"Fragmentation: {format_bytes(counters.inactive_split_bytes)} are free in pieces, beside live blocks.",
        evidence=(said,),
        remedy=f"If it stays so, start the program with {EXPANDABLE}.",
        bytes=counters.inactive_split_bytes,
    )


def _remedy(category: Category, *, is_named: bool) -> str:
    """`is_named`: whether the tensors were looked at in this very look."""
    return REMEDIES[category] if is_named or category is not Category.UNATTRIBUTED else LOOK_FIRST


def _is_scattered(release: SegmentRelease) -> bool:
    segment = release.segment
    live = sum(blocker.block.size_bytes for blocker in release.blockers)
    is_plain = not segment.is_expandable and not segment.is_small and segment.pool_id == DEFAULT_POOL
    return is_plain and release.stuck_bytes > 0 and live <= SCATTERED_LIVE_SHARE * segment.size_bytes


def _largest_free(release: SegmentRelease) -> int:
    live = {blocker.block.address for blocker in release.blockers}
    return max((b.size_bytes for b in release.segment.blocks if b.address not in live), default=0)


def _holders(segments: list[SegmentRelease]) -> list[_Holder]:
    """Who holds these segments alone, those first whose end would free most; where nobody does, all who do together."""
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
    """The blocks that keep a segment: all of a native one; of an expandable one those that keep a page alone."""
    alone = [blocker for blocker in release.blockers if blocker.releases_bytes]
    return alone if alone and release.segment.is_expandable else list(release.blockers)


def _freed_without(release: SegmentRelease, blockers: list[Blocker], *, is_alone: bool) -> int:
    if release.segment.is_expandable:
        return sum(blocker.releases_bytes for blocker in blockers)
    return release.segment.size_bytes if is_alone else 0


def name_of(owner: Owner) -> str:
    """The family of a block's owner, in words where it has no name."""
    if owner.category is Category.UNATTRIBUTED:
        return UNKNOWN
    return family(owner.name) if owner.name else f"{owner.category.value.replace('_', ' ')} without a name"


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
        return f"Without {what} empty_cache() would return {format_bytes(holder.freed_bytes)} more."
    return f"{what} holds segments together with others."
