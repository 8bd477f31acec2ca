"""Sentences about the monitor as a whole, above everything: why there are no devices, why processes are missing."""

from __future__ import annotations

from gputui.model.snapshot import NOTHING_YET, Snapshot
from gputui.ui.drawing.banner import draw_banner
from gputui.ui.widgets.painted import Painted


class Banner(Painted):
    """As many lines as there is to say, none where there is nothing."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._snapshot = NOTHING_YET
        self.display = False

    def set_problems(self, snapshot: Snapshot) -> None:
        """Show what is wrong with this snapshot."""
        self._snapshot = snapshot
        self.redraw()

    def redraw(self) -> None:
        """Draw for the width of the screen, which is known before that of the banner, and take as many lines."""
        lines = draw_banner(self._snapshot, self.screen.size.width - self.styles.margin.width)
        if self.display != bool(lines):
            self.display = bool(lines)
        if self.styles.height is None or self.styles.height.value != len(lines):
            self.styles.height = len(lines)
        self.show(tuple(lines))

    def on_resize(self) -> None:
        """The width changed."""
        self.redraw()
