"""The Why screen: findings one below the other, with evidence and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gputui.model.finding import Finding, Weight
from gputui.ui.drawing.line import Line, Piece, fit, indented, join

LOOKS: dict[Weight, tuple[str, str, str]] = {
    Weight.PROBLEM: ("!", "poor", "problem"),
    Weight.ADVICE: ("*", "fair", "piece of advice"),
    Weight.FACT: ("-", "title", "number"),
}
"""By weight: a sign, the role of the title, and the noun."""

PLURALS = {"piece of advice": "pieces of advice"}
NO_FINDINGS = "No findings: this device has not been looked at yet, or PyTorch holds no memory on it."


def draw_counts(findings: Sequence[Finding], width: int) -> Line:
    """How many findings there are of each weight."""
    counts = Counter(finding.weight for finding in findings)
    pieces: list[Piece] = [(" ", "plain")]
    for weight, (sign, role, word) in LOOKS.items():
        if counts[weight]:
            many = PLURALS.get(word, f"{word}s")
            pieces += [(sign, role), (f" {counts[weight]} {word if counts[weight] == 1 else many}   ", "dim")]
    return join(pieces) if len(pieces) > 1 else ((fit(f" {NO_FINDINGS}", width), "dim"),)


def draw_finding(finding: Finding, width: int, *, is_current: bool, destination: str = "") -> list[Line]:
    """A finding and an empty line; the current one has the cursor, and names the screen that Enter opens."""
    sign, role, _ = LOOKS[finding.weight]
    title = indented(finding.title, width, f" {sign} ", role)
    if is_current:
        title = [((fit("".join(text for text, _ in line), width), "cursor"),) for line in title]
    lines = title
    for sentence in finding.evidence:
        lines += indented(sentence, width, "     ", "plain")
    if finding.remedy:
        lines += indented(finding.remedy, width, "   > ", "good")
    if is_current and destination:
        lines.append(((fit(f"     Enter shows it on the {destination} screen.", width), "dim"),))
    return [*lines, ()]
