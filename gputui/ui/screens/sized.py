"""A screen of the terminal's size, however quickly sizes follow each other."""

from __future__ import annotations

from textual.geometry import Size
from textual.screen import Screen, ScreenResultType


class TerminalSized(Screen[ScreenResultType]):
    """A screen that is laid out for the terminal as it is now.

    A layout of Textual 8.2 posts its own size to the screen as one more resize, behind newer ones that wait already.
    """

    def _screen_resized(self, size: Size) -> None:  # noqa: ARG002 (it may be an old one)
        super()._screen_resized(self.app.size)
