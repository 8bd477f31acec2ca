"""A page of blocks of lines with a cursor on one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, TypeVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from gputui.ui.drawing.line import Line
from gputui.ui.widgets.painted import Wheeled

B = TypeVar("B")


class Blocks(Wheeled, Generic[B], can_focus=True):
    """Shows `head`, then every block, drawn by `draw_block`; what is under the cursor is always in sight."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="list.up"),
        Binding("down,j", "move(1)", "Down", show=False, id="list.down"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="list.page-up"),
        Binding("pagedown,space", "page(1)", "Page down", show=False, id="list.page-down"),
        Binding("home", "move(-1000000)", "First", show=False, id="list.first"),
        Binding("end,G", "move(1000000)", "Last", show=False, id="list.last"),
        Binding("enter", "choose", "Show", id="list.open"),
    ]

    class Chosen(Message):
        """Enter or a second click on a block."""

        def __init__(self, block: object) -> None:
            super().__init__()
            self.block = block

    def __init__(self, draw_block: Callable[[B, int, bool], list[Line]], *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._draw_block = draw_block
        self._head: Callable[[int], list[Line]] = lambda _: []
        self._blocks: tuple[B, ...] = ()
        self._cursor = 0
        self._top = 0
        self._starts: list[int] = []
        """The first line of each block, and behind them the number of all lines."""

    @property
    def current(self) -> B | None:
        """The block under the cursor."""
        return self._blocks[self._cursor] if self._blocks else None

    def set_blocks(self, blocks: Sequence[B], head: Callable[[int], list[Line]], key: Callable[[B], object]) -> None:
        """Replace the blocks; the cursor follows its block by `key`. `head` draws the lines above them."""
        wanted = key(self.current) if self.current is not None else None
        self._blocks, self._head = tuple(blocks), head
        places = [place for place, block in enumerate(self._blocks) if key(block) == wanted]
        self._cursor = max(0, min(places[0] if places else self._cursor, len(self._blocks) - 1))
        self.redraw()

    def redraw(self) -> None:
        """Draw all blocks and show those around the cursor."""
        width, height = self.size
        if not width:
            return
        lines = self._head(width)
        self._starts = []
        for place, block in enumerate(self._blocks):
            self._starts.append(len(lines))
            lines += self._draw_block(block, width, place == self._cursor and self.has_focus)
        self._starts.append(len(lines))
        self._follow_cursor(height)
        self.show(tuple(lines[self._top : self._top + height]))

    def _follow_cursor(self, height: int) -> None:
        """The least movement that brings the block into sight; of one that is too long, its beginning."""
        if self._blocks:
            first, end = self._starts[self._cursor], self._starts[self._cursor + 1]
            self._top = min(max(self._top, end - height), first)
        if self._cursor == 0:
            self._top = 0
        self._top = max(0, min(self._top, self._starts[-1] - height))

    def action_move(self, steps: int) -> None:
        """Move the cursor by so many blocks."""
        self._cursor = max(0, min(self._cursor + steps, len(self._blocks) - 1))
        self.redraw()

    def action_page(self, pages: int) -> None:
        """Move the cursor to the first block a page further."""
        if not self._blocks:
            return
        wanted = self._starts[self._cursor] + pages * max(1, self.size.height - 1)
        there = [place for place, start in enumerate(self._starts[:-1]) if (start - wanted) * pages >= 0]
        place = (there[0] if pages > 0 else there[-1]) if there else (len(self._blocks) - 1 if pages > 0 else 0)
        self.action_move(place - self._cursor)

    def action_choose(self) -> None:
        """Choose the block under the cursor."""
        if self.current is not None:
            self.post_message(self.Chosen(self.current))

    def turn_wheel(self, lines: int) -> None:
        """The wheel moves the cursor."""
        self.action_move(1 if lines > 0 else -1)

    def on_resize(self) -> None:
        """Width and height changed."""
        self.redraw()

    def on_focus(self) -> None:
        """The cursor shows."""
        self.redraw()

    def on_blur(self) -> None:
        """The cursor hides."""
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """A click puts the cursor there, a second one chooses."""
        line = self._top + event.y
        under = [place for place, start in enumerate(self._starts[:-1]) if start <= line]
        if under:
            self._cursor = under[-1]
            self.redraw()
            if event.chain == 2:
                self.action_choose()
