"""Screens of the terminal's size that are left once, however quickly sizes and keys follow each other."""

from __future__ import annotations

from textual.await_complete import AwaitComplete
from textual.geometry import Size
from textual.screen import Screen, ScreenResultType


class TerminalSized(Screen[ScreenResultType]):
    """A screen that is laid out for the terminal as it is now.

    A layout of Textual 8.2 posts its own size to the screen as one more resize, behind newer ones that wait already.
    """

    def _screen_resized(self, size: Size) -> None:  # noqa: ARG002 (it may be an old one)
        super()._screen_resized(self.app.size)


class LeftOnce(TerminalSized[ScreenResultType]):
    """A screen of which keys that were typed while it closed do not close the one below."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Leave with `result`; nothing where the screen has been left already."""
        if self.app.screen is not self:
            return AwaitComplete.nothing()  # type: ignore[no-any-return, no-untyped-call]
        return super().dismiss(result)
