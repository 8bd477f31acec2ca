"""Leaving a screen once, however fast a person types."""

from __future__ import annotations

from textual.await_complete import AwaitComplete
from textual.screen import ScreenResultType

from gputui.ui.screens.sized import TerminalSized


class LeftOnce(TerminalSized[ScreenResultType]):
    """A screen of which keys that were typed while it closed do not close the one below."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Leave with `result`; nothing where the screen has been left already."""
        if self.app.screen is not self:
            return AwaitComplete.nothing()  # type: ignore[no-any-return, no-untyped-call]
        return super().dismiss(result)
