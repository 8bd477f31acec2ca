"""A page of text for a terminal or a log file: headings, wrapped paragraphs, and lines as the screens draw them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from gputui.output import BOLD, NORMAL, cut
from gputui.ui.drawing.line import Line, as_text

NARROWEST, WIDEST = 60, 100


class Page:
    """Lines of at most `width` columns, in ASCII apart from names; `width` is kept between `NARROWEST` and `WIDEST`."""

    def __init__(self, width: int, *, in_color: bool) -> None:
        self.width = max(NARROWEST, min(width, WIDEST))
        self._in_color = in_color
        self._lines: list[str] = []

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def line(self, text: str, color: str = "") -> None:
        self._add(cut(text.rstrip(), self.width), color)

    def _add(self, text: str, color: str) -> None:
        self._lines.append(f"{color}{text}{NORMAL}" if self._in_color and color else text)

    def section(self, title: str) -> None:
        self.line("")
        self.line(title, BOLD)

    def wrapped(self, text: str, first: str, color: str = "") -> None:
        """A paragraph whose first line begins with `first`; the others are indented as far."""
        for line in textwrap.wrap(
            text,
            self.width,
            initial_indent=first,
            subsequent_indent=" " * len(first),
            break_on_hyphens=False,
        ):
            self._add(line, color)  # wide letters may exceed the page; nothing is cut

    def drawn(self, lines: Iterable[Line]) -> None:
        """Add lines as the screens draw them; an ellipsis becomes "~"."""
        self._lines += [as_text(line, is_colored=self._in_color).replace("…", "~") for line in lines]


def paragraphs(sentences: Iterable[str], width: int) -> list[str]:
    """The lines of each sentence, the second and later ones indented; empty ones are left out."""
    wrapped = (textwrap.wrap(each, width, subsequent_indent="  ", break_on_hyphens=False) for each in sentences)
    return [line for lines in wrapped for line in lines]
