"""Sentences about the monitor as a whole, above everything: why there are no devices, why processes are missing."""

from __future__ import annotations

from collections.abc import Sequence

from gputui.model.snapshot import NOTHING_YET, Snapshot
from gputui.ui.drawing.line import Line
from gputui.ui.drawing.overview import draw_banner
from gputui.ui.widgets.painted import Fitted


class Banner(Fitted):
    """What is wrong with the newest snapshot; no lines where all is well."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._snapshot = NOTHING_YET

    def set_problems(self, snapshot: Snapshot) -> None:
        """Show what is wrong with this snapshot."""
        self._snapshot = snapshot
        self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:  # noqa: ARG002 - as high as it gets
        """The sentences, wrapped."""
        return draw_banner(self._snapshot, width)
