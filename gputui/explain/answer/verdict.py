"""The verdict in one sentence: who holds most of a device's memory, whether memory grows, and when it will be full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gputui.explain.advice.held.folded import folded
from gputui.explain.advice.held.holders import Holder, HolderKey, device_holders, holders_of
from gputui.explain.advice.leaks.counters import Growth, growth_in
from gputui.explain.advice.relevance import names_a_cause
from gputui.explain.answer.estimates import LookHolders, Rise, need_beside, rising, with_growth, with_leak
from gputui.explain.answer.sentences import (
    CACHE,
    OUTSIDE,
    growth_words,
    leak_words,
    most_words,
    peak_words,
    still_words,
)
from gputui.explain.memory.need import need_of, need_words
from gputui.explain.moment.probe_state import at_top
from gputui.explain.owners.names import family
from gputui.explain.owners.not_yet import not_yet_words, waits_for_key, what_names
from gputui.explain.serving.division import ServedPart
from gputui.explain.serving.words import ServedLine
from gputui.model.attached.analysis import Finding
from gputui.model.attached.counters import Counters
from gputui.model.attached.moment import DeviceMoment, TargetMoment
from gputui.model.attached.owners import variables_of
from gputui.model.attached.target import Recorder
from gputui.model.attached.tensors import NAMELESS, Category
from gputui.model.reading import Absent, value_of
from gputui.model.weight import Weight

HOLDERS_SHOWN = 5
HOLDER_SHARE = 0.02
"""Of what all holders have: smaller holders are not listed."""
DEVICE_SHARE = 0.1
"""Shares are of the device if the process holds this part of it: else every holder would have about 0 % of it."""
OUTSIDE_FACTOR = 4
"""Memory outside PyTorch is named first if it is more than this many times what PyTorch has reserved."""
OF_GROWTH = 0.5
"""A container is what grows by the counters if its rate is this part of theirs."""
NEWER_SHARE = 0.75
STEADY_SHARE = 0.5
"""A holder came at the first look since which it always had this share of its present size."""


@dataclass(frozen=True, slots=True)
class HolderLine:
    """A holder with its share of the verdict's `whole`.

    `since` is when it came (epoch seconds), 0 if it was there at the first look, or is folded from several holders.
    """

    holder: Holder
    share: float
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The sentence, its weight, the largest holders, and what their shares are shares of (`whole`: "of the device").

    `variables` are those that the sentence names, `cause` is the finding with whose title the sentence begins.
    `nameless` says what to do if most memory has no known owner, else ""; `needs_look` says whether a look by key may
    name that memory. `not_yet` is how much memory looks have yet to name: see `not_yet_words`.
    """

    sentence: str
    weight: Weight
    holders: tuple[HolderLine, ...]
    whole: str
    variables: frozenset[str] = frozenset()
    cause: Finding | None = None
    growth: Growth | None = None
    peak: str = ""
    """What the largest look so far held, if memory is far below the peak now: see `peak_words`."""
    nameless: str = ""
    not_yet: str = ""
    needs_look: bool = False
    suspect: str = ""
    """The variable that most likely holds most memory, if that memory has no name."""
    served: tuple[ServedLine, ...] = ()
    """The parts into which an inference server divides `served_bytes` of its device; shown in place of the holders."""
    served_bytes: int = 0
    notes: tuple[str, ...] = ()
    """Sentences about the inference server."""

    @property
    def divided(self) -> tuple[ServedPart, ...]:
        """The parts into which the inference server divides its device; () without a server."""
        return tuple(line.part for line in self.served)


def verdict(
    moment: TargetMoment,
    device: DeviceMoment,
    counters: Counters | None = None,
    looks: Sequence[LookHolders] = (),
    findings: Sequence[Finding] = (),
    top: Sequence[Holder] = (),
) -> Verdict | None:
    """The verdict about a device at a moment; None if the process holds nothing there.

    `counters` are those until the moment; `looks` the holders of the looks until then, the newest one last; `findings`
    those of the advice; `top` the holders in the look near the top of a step (`holders_at_top`). Where each step needs
    much more than is left after it, the sentence is about that need, unless memory grows or the process has ended.
    """
    now = looks[-1][1] if looks and device.layout else ()
    leak = next((f for f in findings if f.kind == "leak" and not f.until and not f.is_on_host), None)
    rise = None if moment.ended else rising(looks)
    holders = with_growth(device_holders(device, now), rise, moment.time - moment.look_time)
    holders = with_leak(holders, leak)
    if not holders:
        return None
    whole, whole_bytes = _whole(device, holders)
    growth = growth_in(counters) if counters and not moment.ended else None
    holders = folded(holders)
    largest = _largest(device, holders)
    suspect = next((h for h in holders if leak and leak.owners[:1] == (h.name,)), None) or _half_read(holders, largest)
    is_most = 2 * largest.bytes >= device.statistics.reserved_bytes
    need = None if moment.ended or growth or leak else need_beside(device, rise)
    sentence = most_words(largest, suspect, whole_bytes, whole, is_most=is_most, was=moment.ended is not None)
    likely = suspect.name if suspect and largest.key[0] in NAMELESS else ""
    names = ["" if largest.key[0] == "keeper" else largest.key[1], likely]
    if need:
        sentence, stem = need_words(need, device.top, device.layout)
        names = [stem]
        holders = folded(top) or holders
        whole, whole_bytes = _whole(device, holders)
    named = _named(leak, growth, rise, largest)
    rises = growth_words(device, growth, named, largest)
    if not rises and leak and not moment.ended:
        rises = "" if leak.owners[:1] and leak.owners[0] in names else leak_words(leak)
    is_of_another = bool(rises) and named not in ("", largest.name)
    sentence = f"{rises} {sentence}" if is_of_another else f"{sentence} {rises}".rstrip()
    if not rises and not moment.ended:
        sentence += still_words(moment, counters, need)
    variables = variables_of([*names, named] if rises else names)
    cause = _cause(findings, variables) if largest.key[0] in (CACHE, OUTSIDE) and not need else None
    if cause:
        sentence = f"{cause.title} {sentence}"
        variables |= variables_of(cause.owners)
    held = sum(holder.bytes for holder in holders)
    shown = [holder for holder in holders[:HOLDERS_SHOWN] if holder.bytes >= HOLDER_SHARE * held]
    firsts = _first_seen(looks)
    weights = [finding.weight for finding in findings if not finding.until]
    nameless, needs_look = ("", False) if suspect or need else _nameless(moment, device, largest)
    return Verdict(
        sentence=sentence,
        weight=Weight.PROBLEM if growth or Weight.PROBLEM in weights else min(weights, key=_RANK.index, default=_FACT),
        holders=tuple(HolderLine(h, h.bytes / whole_bytes, firsts.get(h.key, 0.0)) for h in shown),
        whole=whole,
        variables=variables,
        cause=cause,
        growth=growth,
        peak="" if need else peak_words(device, looks),
        nameless=nameless,
        not_yet=not_yet_words(moment, device, [(time, _nameless_bytes(holders)) for time, holders in looks]),
        needs_look=needs_look,
        suspect=likely,
    )


_FACT = Weight.FACT
_RANK = tuple(Weight)


def look_holders(moment: TargetMoment, device: DeviceMoment) -> LookHolders:
    """The time of a moment's look, and its holders."""
    holders = holders_of(device.layout, moment.containers) if device.layout else ()
    return moment.look_time, holders


def holders_at_top(moment: TargetMoment, device: DeviceMoment) -> tuple[Holder, ...]:
    """All holders at the time of the look near the top of a step; () without such a look."""
    shown = at_top(moment)
    there = shown.device(device.index) if shown else None
    if shown is None or there is None or there.layout is None:
        return ()
    return device_holders(there, holders_of(there.layout, shown.containers))


def _named(leak: Finding | None, growth: Growth | None, rise: Rise | None, largest: Holder) -> str:
    """The variable that grows, "" if none is known; the largest holder if an element of that grows."""
    named = leak.owners[0] if leak and leak.owners else ""
    if growth and rise and not named and rise.bytes_per_s >= OF_GROWTH * growth.bytes_per_s:
        named = rise.name
    is_of_largest = family(named) == largest.name or named.startswith(f"{largest.name}[")
    return largest.name if is_of_largest else named


def _cause(findings: Sequence[Finding], variables: frozenset[str]) -> Finding | None:
    """The first finding that says why memory is held that could be freed."""
    return next((found for found in findings if not found.until and names_a_cause(found, variables)), None)


def _largest(device: DeviceMoment, holders: Sequence[Holder]) -> Holder:
    """The holder that the sentence names: the largest one, with three exceptions.

    Memory outside PyTorch must be `OUTSIDE_FACTOR` times PyTorch's, since it does not shrink; the cache, without what a
    step takes back, must exceed the rest; memory newer than the last look must be nearly all: the next look names it.
    """
    counters, need = device.statistics, need_of(device)
    newer = next((holder for holder in holders if holder.key[0] == Category.NEWER.value), None)
    is_newer_most = newer is not None and newer.bytes > NEWER_SHARE * counters.allocated_bytes
    passed_over = (CACHE, OUTSIDE, *(() if is_newer_most else (Category.NEWER.value,)))
    tensors = [holder for holder in holders if holder.key[0] not in passed_over]
    needed = max(counters.allocated_bytes, need.highest_bytes if need else 0)
    cached = counters.reserved_bytes - needed
    if holders[0].key[0] == OUTSIDE and holders[0].bytes > OUTSIDE_FACTOR * counters.reserved_bytes:
        return holders[0]
    if tensors and cached <= needed:
        return tensors[0]
    return next((holder for holder in holders if holder.key[0] == CACHE), holders[0])


def _half_read(holders: Sequence[Holder], largest: Holder) -> Holder | None:
    """The container of which looks have read a part, if the rest is likely half of the memory of `largest` or more."""
    sizes = [
        (holder, holder.bytes * (holder.elements - holder.read_elements) // holder.read_elements)
        for holder in holders
        if 0 < holder.read_elements < holder.elements
    ]
    holder, unread_bytes = max(sizes, key=lambda size: size[1], default=(None, 0))
    return holder if 2 * unread_bytes >= largest.bytes else None


def _whole(device: DeviceMoment, holders: Sequence[Holder]) -> tuple[str, int]:
    """What shares are shares of, and its bytes: the device, or what the process holds if that is a small part of it."""
    total, held = value_of(device.driver.device_total_bytes), sum(holder.bytes for holder in holders)
    if total and held >= DEVICE_SHARE * total:
        return "of the device", total
    is_known = not isinstance(device.driver.process_used_bytes, Absent)
    return f"of what {'this process holds' if is_known else 'PyTorch has reserved'}", held


NOBODY = "No variable leads to these blocks: C++ code or a library may hold them."
NO_LINES = 'The action "Memory history on" shows which line allocates new ones.'
LINES = "The Tensors screen lists those with a line in the memory history by that line."


def _nameless(moment: TargetMoment, device: DeviceMoment, largest: Holder) -> tuple[str, bool]:
    """Why most memory has no name and what to do, and whether a look by key helps; ("", False) if nothing is to do."""
    layout = device.layout
    if largest.key[0] not in NAMELESS or layout is None or moment.ended or moment.file:
        return "", False
    if largest.key[0] == Category.NEWER.value or not layout.is_searched:
        return (what_names(moment), True) if waits_for_key(moment) else ("", False)
    return f"{NOBODY} {NO_LINES if moment.history is Recorder.NOBODY else LINES}", False


def _nameless_bytes(holders: Sequence[Holder]) -> int:
    return sum(holder.bytes for holder in holders if holder.key[0] in NAMELESS)


def _first_seen(looks: Sequence[LookHolders]) -> Mapping[HolderKey, float]:
    """When each holder of the newest look came (epoch seconds), without holders that were there at the first look."""
    if not looks:
        return {}
    sizes = [(time, {holder.key: holder.bytes for holder in holders}) for time, holders in looks]
    firsts = {}
    for holder in looks[-1][1]:
        enough = STEADY_SHARE * holder.bytes
        since = looks[-1][0]
        for time, by_key in reversed(sizes):
            if by_key.get(holder.key, 0) < enough:
                firsts[holder.key] = since
                break
            since = time
    return firsts
