"""Counts what would go to the terminal: the frames of a running application through `ScreenDiff`, as on a real one."""

from __future__ import annotations

from rich.color import ColorSystem
from rich.console import RenderableType
from textual._compositor import CompositorUpdate
from textual.screen import Screen

from gputui.ui.app import GputuiApp
from gputui.ui.backend.screen_diff import ScreenDiff


class Wire:
    """`sent` has what each frame costs that was drawn since `clear`; `repaint` sends all, as at the start."""

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
        """All that was sent."""
        return sum(len(difference.encode()) for difference in self.sent)
