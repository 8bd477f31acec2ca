"""The base of widgets with a cursor on one of several entries: the keys and mouse events that move it and choose."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from gputui.ui.widgets.painted import Wheeled


class Cursored(Wheeled, can_focus=True):
    """Subclasses define how many entries there are, how they are drawn, and how far a page is."""

    KEY_GROUPS: ClassVar[dict[str, str]] = {"list": "Lists and pages"}

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="list.up", tooltip="up one line"),
        Binding("down,j", "move(1)", "Down", show=False, id="list.down", tooltip="down one line"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="list.page-up", tooltip="up one page"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="list.page-down", tooltip="down one page"),
        Binding("home", "move(-1000000)", "First", show=False, id="list.first", tooltip="to the first line"),
        Binding("end,G", "move(1000000)", "Last", show=False, id="list.last", tooltip="to the last line"),
        Binding("enter", "choose", "Open", show=False, id="list.open", tooltip="open the line under the cursor"),
    ]

    class Chosen(Message):
        """Enter or a second click on an entry."""

        def __init__(self, entry: object) -> None:
            super().__init__()
            self.entry = entry

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._cursor = 0
        self._top = 0

    @property
    def count(self) -> int:
        """How many entries there are."""
        raise NotImplementedError

    @property
    def current(self) -> object | None:
        """The entry under the cursor."""
        raise NotImplementedError

    def action_page(self, pages: int) -> None:
        """Move the cursor by this many pages."""
        raise NotImplementedError

    def action_move(self, steps: int) -> None:
        """Move the cursor by this many entries."""
        self._cursor = self.within(self._cursor + steps)
        self.redraw()

    def action_choose(self) -> None:
        """Choose the entry under the cursor."""
        if self.current is not None:
            self.post_message(self.Chosen(self.current))

    def within(self, place: int) -> int:
        """The index of an entry that is nearest to `place`."""
        return max(0, min(place, self.count - 1))

    def clicked(self, place: int, times: int) -> None:
        """Put the cursor on the entry at `place`; a second click chooses it."""
        self._cursor = place
        self.redraw()
        if times == 2:
            self.action_choose()

    def turn_wheel(self, lines: int) -> None:
        self.action_move(lines)

    def on_focus(self) -> None:
        self.redraw()

    def on_blur(self) -> None:
        self.redraw()
