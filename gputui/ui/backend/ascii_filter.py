"""The last step before the terminal with --ascii: borders, toasts and other people's texts too are ASCII."""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from gputui.ui.drawing.ascii import as_ascii


class AsciiFilter(LineFilter):
    """Turns what any widget draws into ASCII."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002 - Textual gives it
        """The same segments in ASCII."""
        return [Segment(as_ascii(text), style, control) for text, style, control in segments]
