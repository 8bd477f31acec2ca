"""The host in two lines."""

from __future__ import annotations

from collections.abc import Sequence

from gputui.model.host import Host
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.host import draw_host
from gputui.ui.drawing.line import Line
from gputui.ui.widgets.painted import Painted


class HostPanel(Painted):
    """CPU, memory, swap, /dev/shm, disk and network."""

    def __init__(self, appearance: Appearance, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._appearance = appearance
        self._host = Host()

    def set_host(self, host: Host) -> None:
        """Show this host."""
        self._host = host
        self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:  # noqa: ARG002 - two lines whatever the height
        """Both lines."""
        return draw_host(self._host, width, self._appearance)
