"""A page of blocks of lines with a cursor on one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, TypeVar

from textual import events
from textual.binding import Binding, BindingType

from gputui.ui.drawing.line import Line
from gputui.ui.widgets.cursored import Cursored

B = TypeVar("B")


class Blocks(Cursored, Generic[B]):
    """Shows `head`, then every block, drawn by `draw_block`; the block under the cursor is always visible."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pagedown,space", "page(1)", "Page down", show=False, id="list.page-down", tooltip="down one page"),
        Binding("enter", "choose", "Show", id="list.open", tooltip="show it on its screen"),
    ]

    def __init__(self, draw_block: Callable[[B, int, bool], list[Line]], *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._draw_block = draw_block
        self._head: Callable[[int], list[Line]] = lambda _: []
        self._blocks: tuple[B, ...] = ()
        self._starts: list[int] = []
        """The first line of every block, then the number of all lines."""

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return len(self._blocks)

    @property
    def current(self) -> B | None:
        """The block under the cursor."""
        return self._blocks[self._cursor] if self._blocks else None

    def set_blocks(self, blocks: Sequence[B], head: Callable[[int], list[Line]], key: Callable[[B], object]) -> None:
        """Replace the blocks; the cursor follows its block by `key`. `head` draws the lines above them."""
        current_key = key(self.current) if self.current is not None else None
        self._blocks, self._head = tuple(blocks), head
        places = [place for place, block in enumerate(self._blocks) if key(block) == current_key]
        self._cursor = self.within(places[0] if places else self._cursor)
        self.redraw()

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """The lines around the cursor, of all blocks."""
        lines = self._head(width)
        self._starts = []
        for place, block in enumerate(self._blocks):
            self._starts.append(len(lines))
            lines += self._draw_block(block, width, place == self._cursor and self.has_focus)
        self._starts.append(len(lines))
        self._follow_cursor(height)
        return lines[self._top : self._top + height]

    def _follow_cursor(self, height: int) -> None:
        """Scroll as little as makes the block visible; a block that is too long shows its beginning."""
        if self._blocks:
            first, end = self._starts[self._cursor], self._starts[self._cursor + 1]
            self._top = min(max(self._top, end - height), first)
        if self._cursor == 0:
            self._top = 0
        self._top = max(0, min(self._top, self._starts[-1] - height))

    def action_page(self, pages: int) -> None:
        """Move the cursor to the first block that is a page away."""
        if not self._blocks:
            return
        line = self._starts[self._cursor] + pages * max(1, self.size.height - 1)
        beyond = [place for place, start in enumerate(self._starts[:-1]) if (start - line) * pages >= 0]
        place = (beyond[0] if pages > 0 else beyond[-1]) if beyond else (len(self._blocks) - 1 if pages > 0 else 0)
        self.action_move(place - self._cursor)

    def turn_wheel(self, lines: int) -> None:
        """Move the cursor by one block."""
        self.action_move(1 if lines > 0 else -1)

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the block that was clicked; a second click chooses it."""
        line = self._top + event.y
        under = [place for place, start in enumerate(self._starts[:-1]) if start <= line]
        if under:
            self.clicked(under[-1], event.chain)
