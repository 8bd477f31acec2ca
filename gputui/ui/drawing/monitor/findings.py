"""Findings about the machine: one below the other on their screen, and those of a device or process on its page."""

from __future__ import annotations

import time
from collections.abc import Iterable

from gputui.model.machine.finding import MachineFinding
from gputui.ui.drawing.entries import LOOKS, draw_entry
from gputui.ui.drawing.line import Line, fit, wrap
from gputui.units import format_duration

NOTHING = (
    "Nothing is wrong with this machine, as far as gputui sees. Some findings need time: a minute to see that a "
    "GPU is busy and does not work, an hour that one is held and not used, which is known at once where "
    "`gputui record` runs. `gputui watch` waits for them."
)
NOTHING_IN_FLEET = (
    "Nothing is wrong with these machines, as far as their exporters tell. The server is asked for findings once "
    "a minute. Some need time: ten minutes to see that a GPU of a busy job is idle, an hour that one is held."
)
_DAY_S = 86400.0


def draw_findings_head(findings: tuple[MachineFinding, ...], width: int, *, is_fleet: bool = False) -> list[Line]:
    """The title of the screen; without findings, also a paragraph that says so of the machine or the fleet."""
    place, nothing = ("these machines", NOTHING_IN_FLEET) if is_fleet else ("this machine", NOTHING)
    title: Line = ((fit(f"What is wrong with {place}", width), "title"),)
    return [title, ()] if findings else [title, (), *wrap(nothing, min(width, 100), "dim")]


def draw_finding(finding: MachineFinding, now: float, width: int, *, is_current: bool) -> list[Line]:
    """A finding and an empty line; the current one has the cursor, and says where Enter goes."""
    place = "process" if finding.process else "device" if finding.device else "node" if finding.node else ""
    lines = draw_entry(
        LOOKS[finding.weight],
        f"{finding.where}: {finding.title}",
        width,
        remedy=finding.remedy,
        sentences=(*finding.evidence, since_words(finding, now)),
        is_current=is_current,
        enter=f"Enter shows the {place}." if place else "",
    )
    return [*lines, ()]


def draw_own_findings(findings: Iterable[MachineFinding], now: float, width: int) -> list[Line]:
    """The findings about one device or process, above its readings."""
    lines: list[Line] = []
    for finding in findings:
        sentences = (*finding.evidence, since_words(finding, now))
        lines += draw_entry(LOOKS[finding.weight], finding.title, width, remedy=finding.remedy, sentences=sentences)
    return lines


def since_words(finding: MachineFinding, now: float) -> str:
    """ "Seen since 12:13:05 (for 1h02m)."; a finding of the first look may be older."""
    has_day = now - finding.since > _DAY_S
    began = time.strftime("%Y-%m-%d %H:%M" if has_day else "%H:%M:%S", time.localtime(finding.since))
    older = " or earlier" if finding.is_older else ""
    return f"Seen since {began}{older} ({format_duration(now - finding.since)})."
