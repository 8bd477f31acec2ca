"""From the moment of an out-of-memory error to its analysis."""

from __future__ import annotations

from collections.abc import Sequence

from gputui.explain.failure.outside import rules_for
from gputui.explain.failure.phase import is_of_library, is_of_torch, phase_of
from gputui.explain.failure.remedies import Case, remedies_for
from gputui.explain.failure.servers import FOR_OPERATORS, server_moment
from gputui.explain.memory.parts import parts_of
from gputui.explain.owners.families import bytes_of, description, families
from gputui.explain.owners.names import counted, family
from gputui.explain.owners.owners import block_bytes, bytes_by_module
from gputui.model.attached.allocator import BlockState
from gputui.model.attached.analysis import Owner
from gputui.model.attached.failure import FailureAnalysis, Holder
from gputui.model.attached.moment import DeviceMoment, TargetMoment
from gputui.model.attached.tensors import Category

HOLDERS = 5
"""How many families of modules, and how many of tensors, are named."""
CALLERS = 3


def analysis_of(moment: TargetMoment) -> FailureAnalysis | None:
    """The analysis of a moment's `failure`, None without one; it names no holders where there was no look."""
    failure = moment.failure
    if failure is None:
        return None
    device = moment.device(failure.device)
    phase = phase_of(failure)
    own = [site for site in failure.stack if not is_of_library(site)]
    place = next((site for site in failure.stack if not is_of_torch(site)), None)
    place = place or next(iter(failure.stack), None)
    reserved = device.statistics.reserved_bytes if device else 0
    usable_bytes = failure.device_free_bytes
    if failure.allowed_bytes is not None:
        usable_bytes = min(usable_bytes, max(0, failure.allowed_bytes - reserved))
    short_bytes = max(0, failure.requested_bytes - usable_bytes)
    members = _members(moment, device)
    case = Case(moment, failure, device, phase, usable_bytes, short_bytes, tuple(members))
    server = server_moment(failure.stack, moment.serving)
    rules = [rule for rule in rules_for(case) if server is None or rule.kind in FOR_OPERATORS]
    pieces = _free_pieces(moment, failure.device)
    allocated = device.statistics.allocated_bytes if device else 0
    return FailureAnalysis(
        phase=phase,
        place=place,
        callers=tuple([site for site in own if site is not place][:CALLERS]),
        usable_free_bytes=usable_bytes,
        short_bytes=short_bytes,
        reserved_bytes=reserved,
        allocated_bytes=allocated,
        cached_bytes=reserved - allocated,
        largest_piece_bytes=max(pieces, default=0),
        outside_bytes=case.outside_bytes,
        parts=_parts(device),
        modules=_modules(members),
        tensors=_tensors(members),
        remedies=remedies_for(case, rules),
        unnamed_blocks=sum(owner.category is Category.UNATTRIBUTED for owner, _ in members),
        server=server,
    )


def _members(moment: TargetMoment, device: DeviceMoment | None) -> list[tuple[Owner, int]]:
    if device is None or device.layout is None or moment.look is None or moment.look.map is None:
        return []
    return list(block_bytes(moment.look.map, device.layout.owners, device.index))


def _free_pieces(moment: TargetMoment, device: int) -> list[int]:
    layout = moment.look.map if moment.look else None
    segments = [segment for segment in (layout.segments if layout else ()) if segment.device == device]
    return [b.size_bytes for segment in segments for b in segment.blocks if b.state is BlockState.INACTIVE]


def _parts(device: DeviceMoment | None) -> tuple[Holder, ...]:
    parts = parts_of(device) if device else ()
    inside = [part for part in parts if part.key not in ("others", "outside", "driver", "free")]
    return tuple(Holder(part.name, part.bytes) for part in sorted(inside, key=lambda part: -part.bytes))


def _modules(members: Sequence[tuple[Owner, int]]) -> tuple[Holder, ...]:
    """Families of modules ("model.layers.*"), the largest first."""
    sums: dict[str, dict[Category, int]] = {}
    counts: dict[str, int] = {}
    for module, by_category in bytes_by_module(members).items():
        name = family(module)
        counts[name] = counts.get(name, 0) + 1
        total = sums.setdefault(name, {})
        for category, size_bytes in by_category.items():
            total[category] = total.get(category, 0) + size_bytes
    by_size = sorted(sums.items(), key=lambda entry: -sum(entry[1].values()))
    return tuple(
        Holder(name, sum(by_category.values()), counts[name], counted(counts[name], "module"))
        for name, by_category in by_size[:HOLDERS]
    )


def _tensors(members: Sequence[tuple[Owner, int]]) -> tuple[Holder, ...]:
    return tuple(
        Holder(name, bytes_of(alike), len(alike), description([owner for owner, _ in alike]))
        for name, alike in families(members)[:HOLDERS]
    )
