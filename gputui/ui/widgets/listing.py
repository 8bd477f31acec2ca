"""A list with a cursor: a head line and as many entries as fit; only visible entries are drawn."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from textual import events

from gputui.ui.drawing.columns import mark_place, place_width
from gputui.ui.drawing.line import Line, fit, text_of
from gputui.ui.widgets.cursored import Cursored

E = TypeVar("E")


class Listing(Cursored, Generic[E]):
    """Entries of type `E`, one to a line; the cursor stays on its entry, by its key, while the list changes."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._entries: tuple[E, ...] = ()
        self.spare = 0
        """Cells at the end of the head that columns should leave free, for the cursor's place."""

    def key_of(self, entry: E) -> Hashable:
        """What identifies the same entry in the next list."""
        raise NotImplementedError

    def draw_head(self, width: int) -> Line:
        """The line above the entries."""
        raise NotImplementedError

    def draw_entry(self, entry: E, width: int) -> Line:
        """One entry."""
        raise NotImplementedError

    def role_of(self, entry: E) -> str:  # noqa: ARG002 - for subclasses
        """The role of an entry's whole line; "" leaves the pieces their own roles."""
        return ""

    @property
    def why_empty(self) -> str:
        """The sentence in the list now, if it has no entries."""
        return ""

    @property
    def entries(self) -> tuple[E, ...]:
        return self._entries

    @property
    def count(self) -> int:
        return len(self._entries)

    @property
    def current(self) -> E | None:
        """The entry under the cursor."""
        return self._entries[self._cursor] if self._cursor < len(self._entries) else None

    @property
    def on_screen(self) -> tuple[E, ...]:
        """The entries that are on screen."""
        return self._entries[self._top : self._top + max(1, self.size.height - 1)]

    def set_entries(self, entries: tuple[E, ...]) -> None:
        """Replace the entries; the cursor follows its entry, or keeps its line if the entry is gone."""
        key = self.key_of(self.current) if self.current is not None else None
        self._entries = entries
        if key is not None:
            place_now = next((place for place, entry in enumerate(entries) if self.key_of(entry) == key), None)
            self._cursor = self._cursor if place_now is None else place_now
        self._cursor = self.within(self._cursor)
        self.redraw()

    def move_to(self, key: Hashable) -> None:
        """Put the cursor on the entry with this key, if there is one."""
        for place, entry in enumerate(self._entries):
            if self.key_of(entry) == key:
                self._cursor = place
        self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """The head and the visible entries."""
        rows = max(1, height - 1)
        self._top = max(0, min(self._top, len(self._entries) - rows, self._cursor))
        self._top = max(self._top, self._cursor - rows + 1)
        self.spare = place_width(len(self._entries), rows)
        visible = self._entries[self._top : self._top + rows]
        lines = [self._line(entry, place, width) for place, entry in enumerate(visible, self._top)]
        if not lines and self.why_empty:
            lines = [((fit(f" {self.why_empty}", width), "dim"),)]
        return [mark_place(self.draw_head(width), self._cursor, len(self._entries), rows, width), *lines]

    def _line(self, entry: E, place: int, width: int) -> Line:
        line = self.draw_entry(entry, width)
        role = self.role_of(entry)
        if place == self._cursor and self.has_focus:
            role = "cursor"
        return ((fit(text_of((line,)), width), role),) if role else line

    def action_page(self, pages: int) -> None:
        """Move the cursor by this many pages."""
        self.action_move(pages * max(1, self.size.height - 1))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the entry that was clicked; a second click chooses it."""
        place = self._top + event.y - 1
        if event.y == 0:
            self.head_clicked(event.x)
        elif place < len(self._entries):
            self.clicked(place, event.chain)

    def head_clicked(self, x: int) -> None:
        """The head was clicked at cell `x`."""
