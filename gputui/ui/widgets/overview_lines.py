"""The lines of the overview above and below its list of devices: the banner, and the host."""

from __future__ import annotations

from collections.abc import Sequence

from gputui.model.machine.host import Host
from gputui.model.machine.snapshot import NOTHING_YET, Snapshot
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.line import Line
from gputui.ui.drawing.monitor.host import draw_host
from gputui.ui.drawing.monitor.overview import draw_banner
from gputui.ui.widgets.painted import Fitted, Painted


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
        return draw_banner(self._snapshot, width)


class HostPanel(Painted):
    """CPU, memory, swap, /dev/shm, disk and network, in two lines."""

    def __init__(self, appearance: Appearance, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._appearance = appearance
        self._host = Host()

    def set_host(self, host: Host) -> None:
        self._host = host
        self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:  # noqa: ARG002 - two lines whatever the height
        return draw_host(self._host, width, self._appearance)
