"""A menu over the screen: choices with a letter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option

from gputui.ui.backend.screens import LeftOnce

Choice = tuple[str, str, str]
"""Letter, words, and the name that is returned."""


class Menu(LeftOnce[str | None], ModalScreen[str | None]):
    """Returns the name of the choice, with "-" before it for a capital letter; None for Escape."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "cancel", "Cancel", id="menu.cancel"),
        Binding("j", "down", "Down", show=False),
        Binding("k", "up", "Up", show=False),
    ]

    def __init__(self, title: str, choices: Sequence[Choice]) -> None:
        super().__init__()
        self._title = title
        self._choices = choices

    def compose(self) -> ComposeResult:
        """A title and the choices."""
        with Vertical(id="box"):
            yield Label(self._title, id="title", markup=False)
            options = (Option(f"{letter}  {words}" if letter else words, name) for letter, words, name in self._choices)
            yield OptionList(*options, markup=False)

    def on_key(self, event: events.Key) -> None:
        """A letter chooses immediately."""
        for letter, _, name in self._choices:
            if letter and event.character and event.character.casefold() == letter:
                event.stop()
                self.dismiss(f"-{name}" if event.character.isupper() else name)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter or a click chooses."""
        self.dismiss(event.option_id)

    def action_cancel(self) -> None:
        self.dismiss(None)

    def action_down(self) -> None:
        self.query_one(OptionList).action_cursor_down()

    def action_up(self) -> None:
        self.query_one(OptionList).action_cursor_up()
