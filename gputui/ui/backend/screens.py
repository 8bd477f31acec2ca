"""The base of gputui's screens: corrects what Textual does when resizes, keys and the end follow each other quickly."""

from __future__ import annotations

from textual.await_complete import AwaitComplete
from textual.geometry import Size
from textual.screen import Screen, ScreenResultType


class TerminalScreen(Screen[ScreenResultType]):
    """A screen that is laid out for the terminal's present size.

    When Textual 8.2 lays out a screen, it posts that size as one more resize, behind newer ones that are waiting.
    """

    def _screen_resized(self, size: Size) -> None:  # noqa: ARG002 (it may be an old one)
        super()._screen_resized(self.app.size)

    @property
    def is_closing(self) -> bool:
        """Whether the screen is being taken down, widget by widget: messages still come, but nothing can be drawn."""
        return self._pruning or self.app._exit


class LeftOnce(TerminalScreen[ScreenResultType]):
    """A screen that closes once: a key typed twice in quick succession does not close the screen below too."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close with `result`; does nothing once the screen has closed."""
        if self.app.screen is not self:
            return AwaitComplete.nothing()  # type: ignore[no-any-return, no-untyped-call]
        return super().dismiss(result)
