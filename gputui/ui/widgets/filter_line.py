"""The line in which a filter is typed; the list follows at every key."""

from __future__ import annotations

from collections.abc import Callable

from rich.cells import cell_len
from textual import events
from textual.markup import escape
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from gputui.errors import UsageError

BORDER_CELLS = 4
"""Cells of the border beside its subtitle."""


class FilterLine(Input):
    """Hidden until it is opened; Enter keeps the filter, Escape drops it. An invalid filter is explained, not applied.

    `check` returns a hint about a valid filter, "" for none, and raises UsageError with a sentence for an invalid one.
    """

    class Typed(Message):
        """A valid filter was typed."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Closed(Message):
        """The line is hidden again, so something else needs the keyboard."""

    def __init__(self, check: Callable[[str], str], placeholder: str) -> None:
        super().__init__(id="filter", placeholder=placeholder)
        self._check = check
        self._fault = ""
        self._focused_before: Widget | None = None
        self.cursor_blink = False
        self.display = False

    def open(self, text: str) -> None:
        """Show the line with the filter as it is, and give it the keyboard."""
        self.value = text
        self.display = True
        self._focused_before = self.screen.focused
        self.screen.set_focus(self)  # `focus` would take effect later, and the next keys belong here

    def on_input_changed(self, event: Input.Changed) -> None:
        """Report every valid text."""
        event.stop()
        if self._is_valid():
            self.post_message(self.Typed(self.value))

    def on_key(self, event: events.Key) -> None:
        """Enter and Escape close the line."""
        if event.key not in ("enter", "escape"):
            return
        event.stop()
        event.prevent_default()
        if event.key == "escape":
            self.value = ""
            self._close()
        elif self._is_valid():
            self._close()
        elif cell_len(self._fault) > self.size.width - BORDER_CELLS:  # the border shows only its beginning
            self.border_subtitle = ""
            self.app.notify(self._fault, severity="error", markup=False)

    def _is_valid(self) -> bool:
        """Check the filter as it is, and show its hint, or what is wrong with it."""
        try:
            hint = self._check(self.value)
        except UsageError as error:
            self._fault = hint = str(error)
        else:
            self._fault = ""
        self.border_subtitle = escape(hint)
        self.set_class(bool(self._fault), "-wrong")
        return not self._fault

    def _close(self) -> None:
        self.display = False
        self.screen.set_focus(self._focused_before)  # `Closed` takes effect later, and the next keys belong there
        self.post_message(self.Closed())
