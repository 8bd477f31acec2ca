"""What screens need of the application: they depend on this protocol alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from gputui.model.history import History
from gputui.model.machine.process import Identity
from gputui.model.machine.snapshot import Snapshot
from gputui.settings import Settings
from gputui.ui.attach.attached import Attached
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.monitor.process_rows import View
from gputui.ui.drawing.monitor.status import MonitorState


class Monitor(Protocol):
    """The application, as its screens see it; screens may replace `view` and `state`."""

    view: View
    """How the user wants the process list."""
    state: MonitorState

    @property
    def snapshot(self) -> Snapshot:
        """The newest snapshot."""
        ...

    @property
    def history(self) -> History:
        """The readings that graphs show."""
        ...

    @property
    def settings(self) -> Settings:
        """The settings, flags of the command line included."""
        ...

    @property
    def appearance(self) -> Appearance:
        """Glyphs and thresholds."""
        ...

    @property
    def keymap(self) -> dict[str, str]:
        """The keys that the settings change, by the id of their binding."""
        ...

    @property
    def attached(self) -> Attached:
        """The attached processes."""
        ...

    def attend(self) -> None:
        """Tell the sampler what the screen on top shows."""
        ...

    def say(self, sentence: str, *, is_error: bool = True) -> None:
        """Show a notice for a few seconds."""
        ...

    def ask(self, question: str, lines: Sequence[str], verb: str, then: Callable[[], None]) -> None:
        """Ask before an action, and do it if the answer is yes."""
        ...

    def copy(self, what: str, text: str) -> None:
        """Copy a text to the terminal's clipboard, and say so; `what` names it."""
        ...

    def set_tagged(self, count: int) -> None:
        """Show in the status line how many processes are tagged."""
        ...

    def send_signal(self, name: str, identities: Sequence[Identity]) -> None:
        """Send a signal to processes, and report the result."""
        ...

    def show_attach_screen(self, name: str) -> None:
        """Go to an attach screen; it takes the place of an attach screen on top."""
        ...

    def jump_to(self, name: str, address: int) -> None:
        """Go to an attach screen, with the cursor on what is at an address."""
        ...
