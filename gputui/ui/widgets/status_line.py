"""The top line of every screen."""

from __future__ import annotations

from gputui.model.snapshot import NOTHING_YET, Snapshot
from gputui.ui.drawing.status import MonitorState, draw_status
from gputui.ui.widgets.painted import Painted


class StatusLine(Painted):
    """Machine, driver, state and time."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._snapshot = NOTHING_YET
        self._state = MonitorState()

    def set_status(self, snapshot: Snapshot, state: MonitorState) -> None:
        """Show this state."""
        self._snapshot, self._state = snapshot, state
        self.redraw()

    def redraw(self) -> None:
        """Draw for the present width."""
        if self.size.width:
            self.show((draw_status(self._snapshot, self._state, self.size.width),))

    def on_resize(self) -> None:
        """The width changed."""
        self.redraw()
