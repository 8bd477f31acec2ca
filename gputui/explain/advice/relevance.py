"""Which findings are shown, and in which order: only those large enough to matter, and one for each cause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from gputui.explain.advice.rules import RULES, About
from gputui.explain.advice.situation import Situation
from gputui.explain.advice.thresholds import (
    CACHE_MATTERS_SHARE,
    MATTERS_BYTES,
    MATTERS_SHARE,
    PART_BYTES,
)
from gputui.model.attached.analysis import Finding
from gputui.model.attached.owners import variables_of
from gputui.model.reading import value_of
from gputui.model.weight import Weight

_RULES = {rule.kind: rule for rule in RULES}
_FIRST = [rule.kind for rule in RULES if rule.comes_first]

OVERLAP = 0.5
"""A finding says the same as one before it if this share of its blocks belongs to that one, too."""

CAUSES = (About.LIVE, About.GROWING, About.CAPTURED)
"""What a finding is about that says why memory is held."""
OF_BLOCKS = (About.LIVE, About.GROWING)
"""What a finding is about whose addresses are those of live blocks, not of segments."""

_RANK = tuple(Weight)


def relevant(findings: Iterable[Finding], situation: Situation) -> tuple[Finding, ...]:
    """The findings to show, in the order of `in_order`, without those that another finding makes needless."""
    worthwhile = in_order(finding for finding in findings if _matters(finding, situation))
    kinds = {finding.kind for finding in worthwhile}
    silent = {other for kind in kinds for other in _RULES[kind].replaces}
    shown: list[Finding] = []
    for finding in worthwhile:
        if finding.kind not in silent and not any(_is_within(finding, other) for other in shown):
            shown.append(finding)
    return tuple(shown)


def names_a_cause(finding: Finding, variables: Set[str]) -> bool:
    """Whether a finding says why memory is held that could be freed, which is what most people ask.

    `variables` are those that the verdict names: a finding of weight FACT about one of them adds nothing.
    """
    is_cause = _RULES[finding.kind].about in CAUSES
    return is_cause and (finding.weight is not Weight.FACT or variables.isdisjoint(variables_of(finding.owners)))


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings by weight, then by the order of rules with `comes_first`, then the largest first."""
    return tuple(sorted(findings, key=lambda f: (_RANK.index(f.weight), _head(f.kind), -f.bytes, f.kind)))


def _head(kind: str) -> int:
    return _FIRST.index(kind) if kind in _FIRST else len(_FIRST)


def _matters(finding: Finding, situation: Situation) -> bool:
    """Whether a finding is worth a thought on a device of this size."""
    total, counters = value_of(situation.device.driver.device_total_bytes), situation.device.statistics
    if finding.weight is Weight.FACT or not total:
        return True
    rule = _RULES[finding.kind]
    if rule.about is About.CACHE:
        was_full = bool(counters.num_ooms or counters.num_alloc_retries) and not situation.was_never_full
        return was_full or finding.bytes >= CACHE_MATTERS_SHARE * total
    if rule.about is About.LIVE:
        least_bytes = PART_BYTES if rule.is_seldom_meant else MATTERS_BYTES
        is_large_part = finding.bytes >= max(least_bytes, rule.matters_share * counters.reserved_bytes)
        return is_large_part or finding.bytes >= MATTERS_SHARE * total
    return True


def _is_within(finding: Finding, other: Finding) -> bool:
    """Whether half of the blocks of a finding, or more, belong to the other finding, too."""
    if any(_RULES[one.kind].about not in OF_BLOCKS for one in (finding, other)):
        return False
    mine: Sequence[int] = finding.addresses
    return bool(mine) and len(set(mine) & set(other.addresses)) >= OVERLAP * len(mine)
