"""The Why screen: the verdict, the largest holders, and findings one below the other, with what to do."""

from __future__ import annotations

from collections.abc import Sequence

from gputui.explain.answer.sentences import share_words
from gputui.explain.answer.verdict import HolderLine, Verdict
from gputui.explain.serving.words import ServedLine
from gputui.model.attached.analysis import Finding
from gputui.model.attached.owners import variables_of
from gputui.model.weight import Weight
from gputui.ui.drawing.entries import LOOKS, draw_entry
from gputui.ui.drawing.line import Line, Piece, fit, indented, join, paragraph
from gputui.units import format_bytes, format_clock

PAST = ("~", "dim")

NO_ANSWER = "PyTorch holds no memory on this device."
NOTHING_TO_DO = "Nothing to do: no finding about this program."
VERDICT_LINES = 3
WITHOUT_CURE = frozenset(("out_of_memory", "retries"))
"""Kinds of findings that say what happened, and only in general what helps."""


def draw_verdict(verdict: Verdict | None, width: int, most: int) -> list[Line]:
    """The verdict in at most this many lines, in the colour of its weight."""
    if verdict is None:
        return []
    role = {Weight.PROBLEM: "poor", Weight.ADVICE: "fair"}.get(verdict.weight, "title")
    return _first_lines(paragraph(verdict.sentence, width, role), width, most)


def _first_lines(lines: list[Line], width: int, most: int) -> list[Line]:
    """At most this many lines; the last of them is cut, with an ellipsis, where more follow."""
    if len(lines) <= most:
        return lines
    (lead, role), *_ = lines[most - 1]
    indent = lead[: len(lead) - len(lead.lstrip())]
    rest = " ".join("".join(text for text, _ in line).strip() for line in lines[most - 1 :])
    return [*lines[: most - 1], ((fit(indent + rest, width), role),)]


def draw_advice(findings: Sequence[Finding], verdict: Verdict | None, width: int, most: int = 1) -> list[Line]:
    """What to do about the first finding of weight, in at most this many lines.

    The remedy alone where the finding has no owners or the verdict names one; else the title alone, and both below a
    server's division, which names none. A finding about the verdict's holder goes before a failed allocation.
    """
    ready = [one for one in findings if not one.until and one.weight is not Weight.FACT and one.remedy]
    if not ready:
        return []
    variables = verdict.variables if verdict else frozenset()
    about = [one for one in ready if not variables.isdisjoint(variables_of(one.owners))]
    first = about[0] if about and ready[0].kind in WITHOUT_CURE else ready[0]
    is_served = verdict is not None and bool(verdict.served)
    if (first.owners or is_served) and first not in about:
        sign, role = LOOKS[first.weight]
        words = f"{first.title} {first.remedy}" if is_served else first.title
        return _first_lines(indented(words, width, f" {sign} ", role), width, most)
    return _first_lines(indented(first.remedy, width, " > ", "good"), width, most)


def draw_answer(verdict: Verdict | None, findings: Sequence[Finding], width: int) -> list[Line]:
    """The verdict, the largest holders, and the title of what follows."""
    if verdict is None:
        return paragraph(NO_ANSWER, width, "dim")
    lines = draw_verdict(verdict, width, most=VERDICT_LINES)
    lines += draw_holders(verdict, width)
    if verdict.not_yet:
        lines.append(((fit(f" {verdict.not_yet}", width), "fair"),))
    if verdict.peak:
        lines += paragraph(verdict.peak, width, "dim")
    is_advised = any(finding.weight is not Weight.FACT and not finding.until for finding in findings)
    title = " What to do, the largest gain first" if is_advised else f" {NOTHING_TO_DO}"
    return [*lines, (), ((fit(title, width), "title"),)]


def draw_holders(verdict: Verdict, width: int) -> list[Line]:
    """A line for each of the largest holders; in their place a server's division of its device, with what it holds."""
    if not verdict.served:
        return [line for holder in verdict.holders for line in _draw_holder(holder, width)]
    lines = [_draw_served(served, verdict.served_bytes, width) for served in verdict.served]
    return lines + [line for note in verdict.notes for line in paragraph(note, width, "plain")]


def _draw_served(line: ServedLine, whole_bytes: int, width: int) -> Line:
    """ "  39.1 GiB  49%  KV cache  5,127,344 tokens"; the note is left out where it does not fit."""
    numbers = f"{format_bytes(line.part.bytes):>11} {share_words(line.part.bytes / whole_bytes):>4}  "
    name = fit(line.part.facts.name, max(1, width - len(numbers))).rstrip()
    pieces: list[Piece] = [(numbers, "plain"), (name, "title")]
    if line.note and len(numbers) + len(name) + len(line.note) + 2 <= width:
        pieces.append((f"  {line.note}", "dim"))
    return join(pieces)


def _draw_holder(line: HolderLine, width: int) -> list[Line]:
    """ "  26.6 GiB  33%  losses (train.py:31 in main)", and what it keeps; since when, if it came later."""
    holder = line.holder
    numbers = f"{format_bytes(holder.bytes):>11} {share_words(line.share):>4}  "
    since = f"since {format_clock(line.since)}" if line.since else ""
    notes = ", ".join(filter(None, (holder.keeps, since)))
    room = max(1, width - len(numbers))
    if not notes or len(holder.label) + len(notes) + 2 <= room:
        pieces: list[Piece] = [(numbers, "plain"), (holder.label, "title"), (f"  {notes}", "dim")]
        text = "".join(text for text, _ in pieces)
        return [join(pieces) if len(text) <= width else ((fit(text, width), "plain"),)]
    first = join(((numbers, "plain"), (fit(holder.label, room), "title")))
    return [first, *indented(notes, width, " " * len(numbers), "dim")]


def draw_finding(finding: Finding, width: int, *, is_current: bool, destination: str = "") -> list[Line]:
    """A finding and an empty line; the current one has the cursor, and names the screen that Enter opens.

    A finding that no longer holds is drawn as its title alone.
    """
    enter = shown_on(destination)
    if finding.until:
        was = f"Was, until {format_clock(finding.until)}: {finding.title}"
        return [*draw_entry(PAST, was, width, is_current=is_current, enter=enter), ()]
    lines = draw_entry(
        LOOKS[finding.weight],
        finding.title,
        width,
        remedy=finding.remedy,
        sentences=finding.evidence,
        is_current=is_current,
        enter=enter,
    )
    return [*lines, ()]


def shown_on(screen: str) -> str:
    """What Enter does on a finding that another screen shows, "" where none does."""
    return f"Enter shows it on the {screen} screen." if screen else ""
