"""Follows a live program as the screens do, and returns the answer that they give."""

from __future__ import annotations

from collections.abc import Callable

from gputui.explain.answer.answers import Answer, Answers
from gputui.explain.memory.parts import OUTER, parts_of
from gputui.model.attached.analysis import Finding
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.timeline import Timeline
from gputui.model.machine.snapshot import Snapshot
from gputui.sources.probe.client import ProbeClient
from gputui.sources.probe.feed import TargetFeed
from tests.attach.children import wait_until

INTERVAL_S = 0.1
"""Between two readings of the counters, the shortest that a probe takes; looks come beside them."""
MOMENTS_AT_MOST = 4800
"""A sick program is watched until the answer is there; on a busy machine, looks come late and see less."""


def follow(client: ProbeClient, is_enough: Callable[[Answer], bool], moments: int = MOMENTS_AT_MOST) -> Answer:
    """The first answer that is enough, or the last of so many moments."""
    timeline, answers, seen, wrong_sums = Timeline(), Answers(), list[Answer](), list[float]()

    def take(moment: TargetMoment) -> None:
        if not moment.used_devices:
            return
        device = moment.used_devices[0]
        inside = (part.bytes for part in parts_of(device) if part.key not in OUTER)
        wrong_sums.extend([moment.time] if sum(inside) != device.statistics.reserved_bytes else [])
        timeline.add(moment)
        seen.append(answers.at(moment, device, timeline))

    def is_over() -> bool:
        has_ended = timeline.latest is not None and timeline.latest.ended is not None
        return bool(seen) and (is_enough(seen[-1]) or len(seen) >= moments or has_ended)

    feed = TargetFeed(client, Snapshot, take, interval_s=INTERVAL_S)
    feed.start()
    wait_until(is_over, "the answer")
    feed.stop()
    assert wrong_sums == []  # at every moment, the parts add up to the counters
    return seen[-1]


def of_kind(answer: Answer, kind: str) -> Finding | None:
    """The present finding of a kind."""
    return next((finding for finding in answer.findings if finding.kind == kind and not finding.until), None)


def words(finding: Finding) -> str:
    """All that a finding says except the remedy."""
    return " ".join((finding.title, *finding.owners, *finding.evidence))
