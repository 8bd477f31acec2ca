"""Which findings are shown, and in which order: none that does not matter at this size, one for each cause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gputui.explain.advice.rules import RULES, About
from gputui.explain.advice.situation import Situation
from gputui.explain.advice.thresholds import (
    CACHE_MATTERS_SHARE,
    COPY_MATTERS_SHARE,
    MATTERS_BYTES,
    MATTERS_OF_RESERVED_SHARE,
    MATTERS_SHARE,
    PART_BYTES,
)
from gputui.model.attached.finding import Finding
from gputui.model.reading import value_of
from gputui.model.weight import Weight

_RULES = {rule.kind: rule for rule in RULES}
_OF_THE_LIVE = frozenset(rule.kind for rule in RULES if rule.about is About.LIVE)

OVERLAP = 0.5
"""A finding says the same as a heavier one if this share of its blocks belongs to the other, too."""

HEADS = ("out_of_memory", "kept_by_cycle", "kept_by_gradient_graph", "leak", "kept_variable", "churn", "batch")
"""Come first among findings of their weight: what ends or slows the program, and what most people ask."""

COPIES = ("weight_copy", "second_model")
NEVER_MEANT = frozenset({"kept_by_cycle", "kept_by_gradient_graph", "small_views", *COPIES})
"""What is seldom kept on purpose is said of small programs, too."""
CAUSES = ("leak", "failed_capture")
"""What holds memory, beside the findings about live memory."""

_RANK = tuple(Weight)


def relevant(findings: Iterable[Finding], situation: Situation) -> tuple[Finding, ...]:
    """The findings to show: problems first, and of one weight those with the largest gain first."""
    worthwhile = in_order(finding for finding in findings if _matters(finding, situation))
    kinds = {finding.kind for finding in worthwhile}
    silent = {other for kind in kinds for other in _RULES[kind].replaces}
    shown: list[Finding] = []
    for finding in worthwhile:
        if finding.kind not in silent and not any(_is_within(finding, other) for other in shown):
            shown.append(finding)
    return tuple(shown)


def names_a_cause(finding: Finding, verdict: str) -> bool:
    """Whether a finding says why memory is held that could be freed, which is what most people ask.

    A fact about it does if the verdict's sentence is about something else.
    """
    is_about = finding.kind in _OF_THE_LIVE or finding.kind in CAUSES
    return is_about and (finding.weight is not Weight.FACT or not any(map(verdict.__contains__, finding.owners)))


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """By weight, then what ends or slows the program, then by bytes."""
    return tuple(sorted(findings, key=lambda f: (_RANK.index(f.weight), _head(f.kind), -f.bytes, f.kind)))


def _head(kind: str) -> int:
    return HEADS.index(kind) if kind in HEADS else len(HEADS)


def _matters(finding: Finding, situation: Situation) -> bool:
    """Whether its bytes are worth a thought on this device."""
    total, counters = value_of(situation.device.driver.device_total_bytes), situation.device.statistics
    if finding.weight is Weight.FACT or not total:
        return True
    if _RULES[finding.kind].about is About.CACHE:
        was_full = bool(counters.num_ooms or counters.num_alloc_retries) and not situation.was_never_full
        return was_full or finding.bytes >= CACHE_MATTERS_SHARE * total
    if finding.kind in _OF_THE_LIVE:
        share = COPY_MATTERS_SHARE if finding.kind in COPIES else MATTERS_OF_RESERVED_SHARE
        least_bytes = PART_BYTES if finding.kind in NEVER_MEANT else MATTERS_BYTES
        is_large_part = finding.bytes >= max(least_bytes, share * counters.reserved_bytes)
        return is_large_part or finding.bytes >= MATTERS_SHARE * total
    return True


def _is_within(finding: Finding, other: Finding) -> bool:
    """Whether most blocks of a finding belong to the other one, too."""
    if finding.kind not in _OF_THE_LIVE | {"leak"} or other.kind not in _OF_THE_LIVE | {"leak"}:
        return False
    mine: Sequence[int] = finding.addresses
    return bool(mine) and len(set(mine) & set(other.addresses)) >= OVERLAP * len(mine)
