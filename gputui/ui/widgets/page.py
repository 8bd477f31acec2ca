"""A page of lines that may be longer than the screen; keys and wheel scroll it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from gputui.ui.drawing.line import Line, fit
from gputui.ui.widgets.painted import Wheeled

DrawPage = Callable[[int, int], list[Line]]
"""Returns all lines of a page of this width and height."""


class Page(Wheeled, can_focus=True):
    """Shows what `draw_page` returns, from the line it is scrolled to, and how much there is above and below."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_lines(-1)", "Up", show=False, id="list.up", tooltip="up one line"),
        Binding("down,j", "scroll_lines(1)", "Down", show=False, id="list.down", tooltip="down one line"),
        Binding("pageup", "scroll_pages(-1)", "Page up", show=False, id="list.page-up", tooltip="up one page"),
        Binding(
            "pagedown,space", "scroll_pages(1)", "Page down", show=False, id="list.page-down", tooltip="down one page"
        ),
        Binding("home", "scroll_lines(-1000000)", "First", show=False, id="list.first", tooltip="to the first line"),
        Binding("end,G", "scroll_lines(1000000)", "Last", show=False, id="list.last", tooltip="to the last line"),
    ]

    def __init__(self, draw_page: DrawPage, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._draw_page = draw_page
        self._top = 0
        self._all: list[Line] = []

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """The part of the page that is scrolled to."""
        self._all = self._draw_page(width, height)
        return self._visible(width, height)

    def scroll_to_line(self, is_match: Callable[[Line], bool]) -> None:
        """Scroll so that the first line for which `is_match` is true is on top."""
        self._top = next((place for place, line in enumerate(self._all) if is_match(line)), self._top)
        self.show(self._visible(*self.size))

    def _visible(self, width: int, height: int) -> list[Line]:
        """As many lines as fit; of a longer page, the last line says how much there is above and below."""
        rows = height if len(self._all) <= height or height < 3 else height - 1
        self._top = max(0, min(self._top, len(self._all) - rows))
        lines = self._all[self._top : self._top + rows]
        return lines if rows == height else [*lines, self._rest(width, rows)]

    def _rest(self, width: int, rows: int) -> Line:
        above, below = self._top, max(0, len(self._all) - self._top - rows)
        parts = [f"▲ {above} above"] * bool(above) + [f"▼ {below} below: PgDn"] * bool(below)
        return ((fit("  ".join(parts), width, ">"), "accent"),)

    def action_scroll_lines(self, lines: int) -> None:
        """Scroll by this many lines."""
        self._top += lines
        self.show(self._visible(*self.size))

    def action_scroll_pages(self, pages: int) -> None:
        """Scroll by this many pages."""
        self.action_scroll_lines(pages * max(1, self.size.height - 2))

    def turn_wheel(self, lines: int) -> None:
        self.action_scroll_lines(lines)
