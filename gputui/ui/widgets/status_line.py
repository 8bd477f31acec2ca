"""The top line of every screen."""

from __future__ import annotations

from collections.abc import Sequence

from gputui.model.machine.snapshot import NOTHING_YET, Snapshot
from gputui.ui.drawing.line import Line
from gputui.ui.drawing.monitor.status import MonitorState, draw_status
from gputui.ui.widgets.painted import Painted


class StatusLine(Painted):
    """Machine, driver, state of the monitor, and time."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._snapshot = NOTHING_YET
        self._state = MonitorState()

    def set_status(self, snapshot: Snapshot, state: MonitorState) -> None:
        self._snapshot, self._state = snapshot, state
        self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:  # noqa: ARG002 - one line
        return [draw_status(self._snapshot, self._state, width)]
