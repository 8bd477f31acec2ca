"""Advice to use expandable segments, confirmed or withdrawn by a replay of the recorded trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gputui.errors import UsageError
from gputui.explain.whatif.cases import Answer, Case, answer, unchanged
from gputui.explain.whatif.replay.recorded import recorded_of
from gputui.explain.whatif.words import WORTH_SAYING
from gputui.model.attached.analysis import Finding
from gputui.model.attached.moment import DeviceMoment, TargetMoment
from gputui.units import format_bytes

EXPANDABLE_CASE = "expandable_segments:True"
DEFAULT_EXPANDABLE = Case(EXPANDABLE_CASE, EXPANDABLE_CASE)
ADVISING = frozenset({"scattered", "split"})
"""The kinds of findings that advise expandable segments."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """Two replays of one trace: under the recorded settings, and with expandable segments."""

    baseline: Answer
    expandable: Answer

    @property
    def helps(self) -> bool:
        """Whether expandable segments meet a request that failed, or, if none failed, save `WORTH_SAYING` or more."""
        before, after = self.baseline.outcome, self.expandable.outcome
        if before.unmet_requests:
            return not after.is_out_of_memory and after.unmet_requests < before.unmet_requests
        saved = before.peak_reserved_bytes - after.peak_reserved_bytes
        return not after.is_out_of_memory and saved >= WORTH_SAYING * before.peak_reserved_bytes

    @property
    def words(self) -> str:
        """The result of the two replays, as a sentence."""
        before, after, known = self.baseline.outcome, self.expandable.outcome, self.expandable.known.value
        if before.unmet_requests:
            verb = "would" if self.helps else "would not"
            return f"{EXPANDABLE_CASE} {verb} have made room for the request that failed (replayed, {known})."
        return (
            f"With {EXPANDABLE_CASE} the recorded trace takes {format_bytes(after.peak_reserved_bytes)} at its peak"
            f" instead of {format_bytes(before.peak_reserved_bytes)} (replayed, {known})."
        )


def replayed_of(moment: TargetMoment, findings: Sequence[tuple[DeviceMoment, Finding]]) -> tuple[int, Replayed] | None:
    """The device whose trace was replayed, and the two replays.

    None where no finding advises expandable segments and no request failed, or where the trace cannot be replayed.
    """
    device = moment.failure.device if moment.failure else None
    if device is None:
        device = next((advised.index for advised, finding in findings if finding.kind in ADVISING), None)
    if device is None or not any(trace.device == device and len(trace) for trace in moment.traces):
        return None
    try:
        recorded = recorded_of(moment, device)
        return device, Replayed(answer(recorded, unchanged(recorded)), answer(recorded, DEFAULT_EXPANDABLE))
    except UsageError:  # the trace contradicts its map
        return None


def with_outcomes(
    findings: Sequence[tuple[DeviceMoment, Finding]], replayed: tuple[int, Replayed] | None
) -> list[tuple[DeviceMoment, Finding]]:
    """The findings about several devices; those about the replayed device go through `with_outcome`."""
    index, outcome = replayed or (-1, None)
    return [
        (device, with_outcome((finding,), outcome)[0] if device.index == index else finding)
        for device, finding in findings
    ]


def with_outcome(findings: Sequence[Finding], replayed: Replayed | None) -> tuple[Finding, ...]:
    """The findings; the replay's result is added to advice of expandable segments, or replaces it if it is no help."""
    if replayed is None:
        return tuple(findings)
    return tuple(
        replace(finding, remedy=f"{finding.remedy} {replayed.words}" if replayed.helps else replayed.words)
        if finding.kind in ADVISING
        else finding
        for finding in findings
    )
