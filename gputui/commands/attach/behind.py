"""`gputui attach PID --behind`: asks NCCL which rank of a job is behind, and prints what it says."""

from __future__ import annotations

from threading import Event

from gputui.commands.printed.page import Page
from gputui.errors import GputuiError
from gputui.explain.documents.behind import behind_document
from gputui.explain.ranks.collectives import NEVER_TRIED, Findings, findings_of
from gputui.model.collectives import Inquiry
from gputui.output import BOLD, RED, put, put_document, typed
from gputui.sources.nccl.source import PAUSE_S, RasSource


def ask_behind(
    pids: list[int],
    *,
    is_assumed: bool,
    as_json: bool,
    width: int,
    in_color: bool,
    source: RasSource | None = None,
    pause_s: float = PAUSE_S,
) -> int:
    """Ask NCCL twice, after a question to the user unless `is_assumed`; status 1: the second answer is missing.

    Where NCCL may not be asked, compare the lines at which this machine's ranks are, or raise GputuiError for one rank.
    """
    source = source or RasSource()
    told: list[Inquiry] = []
    try:
        question = source.question(pids)
    except GputuiError as error:
        if source.ranks_here(pids[0]) < 2:
            raise
        source.compare(pids[0], str(error), told.append, Event())
    else:
        words = "\n".join((*question.sentences, question.warning, "Ask it? (yes, no) "))
        if not is_assumed and typed(words) not in {"y", "yes"}:
            cause = "NCCL was not asked."
            raise GputuiError(cause, "In a script, --yes answers the question.")
        source.inquire(question.pid, told.append, Event(), pause_s)
    inquiry = told[-1]
    found = findings_of(inquiry)
    if as_json:
        put_document(behind_document(inquiry, found))
    else:
        put(_page(inquiry, found, width, in_color=in_color))
    return int(inquiry.second is None)


def _page(inquiry: Inquiry, found: Findings, width: int, *, in_color: bool) -> str:
    page = Page(width, in_color=in_color)
    if found.headline:
        page.wrapped(found.headline, "", BOLD)
    if inquiry.problem:
        page.wrapped(inquiry.problem, "! ", RED)
    for suspect in found.suspects:
        pid = inquiry.here.get(suspect.place)
        page.line("")
        page.wrapped(suspect.title(pid), "! ", RED)
        doing = inquiry.doing.get(pid, "") if pid is not None else ""
        for sentence in filter(None, (suspect.sentence, doing)):
            page.wrapped(sentence, "    ")
    if found.communicators:
        page.section("Communicators")
        for each in found.communicators:
            page.wrapped(each.words, "  ")
    if inquiry.first is not None:
        page.line("")
        page.wrapped(NEVER_TRIED, "")
    return page.text
