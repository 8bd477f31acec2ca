"""The base of the full screens: a status line and a line of keys, and a redraw with each snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.dom import DOMNode

from gputui.model.fleet.parts import Place
from gputui.model.machine.snapshot import Attention
from gputui.ui.backend.screens import LeftOnce, TerminalScreen
from gputui.ui.drawing.line import Line
from gputui.ui.drawing.monitor.status import draw_status
from gputui.ui.drawing.roles import COMPONENT_CLASSES
from gputui.ui.monitor import Monitor
from gputui.ui.widgets.keys_line import KeysLine
from gputui.ui.widgets.painted import Drawn


class MonitorScreen(TerminalScreen[None]):
    """A screen between a status line and a line of keys, redrawn with each snapshot while it is on top."""

    BINDINGS: ClassVar[list[BindingType]] = []

    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENT_CLASSES
    """The looks of all roles, for the painted widgets of this screen."""

    KEY_GROUPS: ClassVar[dict[str, str]] = {}
    """The first part of the ids of keys declared here, and their heading in the help."""

    PARTS_WITH_KEYS: ClassVar[tuple[type[DOMNode], ...]] = ()
    """Widgets that only this screen has and that declare keys, for the help."""

    LAST_KEYS: ClassVar[frozenset[str]] = frozenset()
    """Ids of keys that the bottom line shows after the others, and drops first."""

    @property
    def monitor(self) -> Monitor:
        """The application, as screens see it."""
        return cast(Monitor, self.app)

    def compose(self) -> ComposeResult:
        """Status, body, keys."""
        yield Drawn(self._draw_status_line, id="status")
        yield from self.compose_body()
        yield KeysLine(last=self.LAST_KEYS, words=self.key_words(), id="keys")

    def key_words(self) -> Mapping[str, str]:
        """Words for the bottom line, by the ids of keys that do something else here than their binding says."""
        return {}

    def compose_body(self) -> ComposeResult:
        """The widgets between the two lines."""
        raise NotImplementedError

    def draw(self) -> None:
        """Hand the present snapshot to the widgets."""
        raise NotImplementedError

    def attention(self) -> Attention:
        """What this screen needs the sampler to read beyond what it always reads."""
        return Attention()

    def show_node(self, place: Place) -> None:
        """Put the cursor on a machine, on the screen that has several."""

    def update_from_monitor(self) -> None:
        """Draw the present snapshot and state."""
        if self.is_closing:
            return
        self.draw_status()
        self.draw()

    def draw_status(self) -> None:
        """Draw the line above the body."""
        self.query_one("#status", Drawn).redraw()

    def _draw_status_line(self, width: int, _height: int) -> list[Line]:
        return [draw_status(self.monitor.snapshot, self.monitor.state, width)]

    def on_mount(self) -> None:
        """Show the snapshot that the application already has."""
        self.call_after_refresh(self.update_from_monitor)

    def on_screen_resume(self) -> None:
        """Catch up: nothing was drawn while another screen was on top."""
        self.monitor.attend()
        self.call_after_refresh(self.update_from_monitor)


class SubScreen(MonitorScreen, LeftOnce[None]):
    """A screen that Escape leaves."""

    KEY_GROUPS: ClassVar[dict[str, str]] = {"screen": "Other screens"}

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "leave", "Back", id="screen.back", tooltip="back to the previous screen"),
    ]

    def action_leave(self) -> None:
        """Go back to the previous screen."""
        self.dismiss()
