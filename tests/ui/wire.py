"""Counts the bytes that `ScreenDiff` would send to a real terminal for the frames of a running application."""

from __future__ import annotations

from rich.color import ColorSystem
from rich.console import RenderableType
from textual._compositor import CompositorUpdate
from textual.screen import Screen

from gputui.ui.app import GputuiApp
from gputui.ui.backend.screen_diff import ScreenDiff


class Wire:
    """`sent` holds the bytes written for each frame."""

    def __init__(self, app: GputuiApp, color_system: ColorSystem | None = ColorSystem.EIGHT_BIT) -> None:
        self.sent: list[str] = []
        self.frames = ScreenDiff(color_system)
        display = app._display

        def count(screen: Screen[object], renderable: RenderableType | None) -> None:
            if isinstance(renderable, CompositorUpdate):
                assert self.frames.take(renderable, *app.size)
                self.sent.append(self.frames.difference())
            display(screen, renderable)

        app._display = count

    @property
    def bytes(self) -> int:
        """How many bytes all frames in `sent` have."""
        return sum(len(difference.encode()) for difference in self.sent)
