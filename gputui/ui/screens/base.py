"""What all full screens share: the top and the bottom line, and being told of snapshots while they are on top."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputui.model.snapshot import Attention
from gputui.ui.backend.screens import LeftOnce, TerminalScreen
from gputui.ui.drawing.roles import COMPONENT_CLASSES
from gputui.ui.widgets.keys_line import KeysLine
from gputui.ui.widgets.status_line import StatusLine

if TYPE_CHECKING:
    from gputui.ui.app import GputuiApp


class MonitorScreen(TerminalScreen[None]):
    """A screen between a status line and a line of keys, drawn anew with each snapshot while it is on top."""

    BINDINGS: ClassVar[list[BindingType]] = []

    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENT_CLASSES
    """The looks of all roles, for the painted widgets of this screen."""

    KEY_GROUPS: ClassVar[dict[str, str]] = {}
    """The first part of the ids of keys that are declared here, and the heading they stand under in the help."""

    LAST_KEYS: ClassVar[frozenset[str]] = frozenset()
    """Ids of keys that the bottom line shows behind the others, and leaves out first."""

    @property
    def monitor(self) -> GputuiApp:
        """The application, typed."""
        from gputui.ui.app import GputuiApp

        app = self.app
        if not isinstance(app, GputuiApp):
            raise TypeError(app)
        return app

    def compose(self) -> ComposeResult:
        """Status, body, keys."""
        yield StatusLine(id="status")
        yield from self.compose_body()
        yield KeysLine(last=self.LAST_KEYS, id="keys")

    def compose_body(self) -> ComposeResult:
        """The widgets between the two lines."""
        raise NotImplementedError

    def draw(self) -> None:
        """Hand the present snapshot to the widgets."""
        raise NotImplementedError

    def attention(self) -> Attention:
        """What is looked at here beyond what is always read."""
        return Attention()

    def update_from_monitor(self) -> None:
        """Draw the present snapshot and state."""
        if self.is_closing:
            return
        self.draw_status()
        self.draw()

    def draw_status(self) -> None:
        """The line above the body."""
        self.query_one(StatusLine).set_status(self.monitor.snapshot, self.monitor.state)

    def on_mount(self) -> None:
        """Show what there is already."""
        self.call_after_refresh(self.update_from_monitor)

    def on_screen_resume(self) -> None:
        """On top again: catch up."""
        self.monitor.attend()
        self.call_after_refresh(self.update_from_monitor)


class SubScreen(MonitorScreen, LeftOnce[None]):
    """A screen that Escape leaves."""

    KEY_GROUPS: ClassVar[dict[str, str]] = {"screen": "Other screens"}

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "leave", "Back", id="screen.back", tooltip="back to the screen below"),
    ]

    def action_leave(self) -> None:
        """Go back to the screen below."""
        self.dismiss()
