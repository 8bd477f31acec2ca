"""A question before an action: Cancel has the focus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Label

from gputui.ui.backend.screens import LeftOnce

LISTED_AT_MOST = 8


class Confirm(LeftOnce[bool], ModalScreen[bool]):
    """Asks `question` about `subjects`; the result is True only for the button with `verb`.

    A subject is one line, such as a command; with `wraps`, subjects are sentences, and shown whole.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,n", "cancel", "Cancel", id="confirm.cancel"),
        Binding("left,right,h,l,tab", "other", "Other button", show=False),
    ]

    def __init__(
        self, question: str, subjects: Sequence[str], verb: str, warning: str = "", *, wraps: bool = False
    ) -> None:
        super().__init__()
        self._question = question
        self._subjects = subjects
        self._verb = verb
        self._warning = warning
        self._kind = "subject -whole" if wraps else "subject"

    def compose(self) -> ComposeResult:
        """Question, subjects, a warning, two buttons."""
        with Vertical(id="box"):
            yield Label(self._question, id="title", markup=False)
            for subject in self._subjects[:LISTED_AT_MOST]:
                yield Label(subject, classes=self._kind, markup=False)
            if len(self._subjects) > LISTED_AT_MOST:
                yield Label(f"and {len(self._subjects) - LISTED_AT_MOST} more", classes="subject")
            if self._warning:
                yield Label(self._warning, id="warning", markup=False)
            with Horizontal(id="buttons"):
                yield Button("Cancel", id="cancel", compact=True)
                yield Button(self._verb, id="confirm", variant="error", compact=True)

    def on_mount(self) -> None:
        """Focus Cancel, so that Enter alone does no harm."""
        self.query_one("#cancel", Button).focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "confirm")

    def action_other(self) -> None:
        self.query_one("#confirm" if self.query_one("#cancel").has_focus else "#cancel", Button).focus()

    def action_cancel(self) -> None:
        self.dismiss(result=False)
