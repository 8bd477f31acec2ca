"""What NCCL says of a job, in lines: the answer in a sentence, the ranks that stand out, the communicators."""

from __future__ import annotations

from gputui.explain.ranks.collectives import NEVER_TRIED, Compared, Findings, State, Suspect, Trouble
from gputui.model.collectives import Inquiry
from gputui.ui.drawing.entries import draw_entry
from gputui.ui.drawing.line import Line, fit, indented, paragraph

_ROLES = {
    State.FAILED: "alarm",
    State.MISSING: "alarm",
    State.BEHIND: "poor",
    State.MIXED: "poor",
    State.MOVING: "good",
}


def draw_head(inquiry: Inquiry, found: Findings, width: int) -> list[Line]:
    """Who was asked, and the answer; while an answer is awaited, a sentence that says so."""
    newest = inquiry.second or inquiry.first
    version = f", NCCL {newest.nccl_version}" if newest else ""
    lines: list[Line] = [((fit(f"Collectives of the job of process {inquiry.pid}{version}", width), "title"),)]
    if found.headline:
        lines += indented(found.headline, width, " > ", "poor" if found.suspects else "plain")
    if inquiry.problem:
        lines += indented(inquiry.problem, width, " ! ", "fair")
    if not inquiry.is_over:
        awaited = "an answer; NCCL takes up to 10 s"
        if newest:
            awaited = "the second answer, a few seconds after the first"
        elif inquiry.problem:
            awaited = "a second look at the lines at which its ranks here are"
        lines += paragraph(f"Waiting for {awaited} ...", width, "dim")
    if newest and newest.timeouts:
        lines += paragraph("Some ranks did not answer within the time that NCCL waits for them.", width, "fair")
    return [*lines, *(paragraph(NEVER_TRIED, width, "dim") if newest or not inquiry.problem else ()), ()]


def draw_suspect(suspect: Suspect, inquiry: Inquiry, width: int, *, is_current: bool) -> list[Line]:
    """A rank that stands out: where it runs, why it does, and what it does now where that can be seen."""
    pid = inquiry.here.get(suspect.place)
    doing = inquiry.doing.get(pid, "") if pid is not None else ""
    lines = draw_entry(
        ("!", "fair" if suspect.trouble is Trouble.WAITS_TOO else "poor"),
        suspect.title(pid),
        width,
        sentences=filter(None, (suspect.sentence, doing)),
        is_current=is_current,
        enter="" if pid is None else "Enter shows the process.",
    )
    return [*lines, ()]


def draw_communicator(compared: Compared, width: int, *, is_current: bool) -> list[Line]:
    """A communicator in a line: its ranks, its state, and how many collectives its ranks have launched."""
    look = (" ", _ROLES.get(compared.state, "plain"))
    return draw_entry(look, compared.words, width, is_current=is_current)
