"""A finding, a section, or a rank in lines: a title with a sign, what to do, then sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gputui.model.weight import Weight
from gputui.ui.drawing.line import Line, fit, indented, text_of

LOOKS: dict[Weight, tuple[str, str]] = {
    Weight.PROBLEM: ("!", "poor"),
    Weight.ADVICE: ("*", "fair"),
    Weight.FACT: ("-", "title"),
}
"""By the weight of a finding: a sign, and the role of the title."""


def draw_entry(  # noqa: PLR0913 - called with keywords
    look: tuple[str, str],
    title: str,
    width: int,
    *,
    remedy: str = "",
    sentences: Iterable[str] = (),
    below: Sequence[Line] = (),
    is_current: bool = False,
    enter: str = "",
) -> list[Line]:
    """`look` is the sign and the role of the title; the entry under the cursor (`is_current`) ends with `enter`."""
    sign, role = look
    lines = indented(title, width, f" {sign} ", role)
    if is_current:
        lines = [((fit(text_of((line,)), width), "cursor"),) for line in lines]
    if remedy:
        lines += indented(remedy, width, "   > ", "good")
    for sentence in sentences:
        lines += indented(sentence, width, "     ", "plain")
    lines += below
    if is_current and enter:
        lines.append(((fit(f"     {enter}", width), "dim"),))
    return lines
