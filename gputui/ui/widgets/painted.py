"""The base of all widgets here: lines of pieces become strips, and only lines that differ are painted again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from gputui.ui.drawing.line import Line, printable

WHEEL_LINES = 3

FILLED = Style(reverse=True)


class Painted(Widget):
    """A widget that shows the lines that `draw` returns; a line beyond the last is blank.

    A subclass keeps the data it shows, and calls `redraw` when they change. A screen hands data over and binds none
    (`data_bind`): bound data draws widgets under other screens too, and once for each value that changes.

    Roles get their looks once for all widgets of a screen: they are component classes of `MonitorScreen`. The role of a
    piece may end with " filled": then its colour is the background.
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._lines: tuple[Line, ...] = ()
        self._styles_by_role: dict[str, Style] = {}

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """The lines for a widget of this size in cells, which is never 0 cells wide."""
        raise NotImplementedError

    @property
    def room(self) -> tuple[int, int]:
        """Width and height to draw for."""
        return self.size.width, self.size.height

    def redraw(self) -> None:
        """Draw the present state; lines that come out equal cost nothing. Before the first layout there is no room."""
        width, height = self.room
        if width > 0:
            self.show(self.draw(width, height))

    def on_resize(self) -> None:
        """Draw for the new size."""
        self.redraw()

    def show(self, lines: Sequence[Line]) -> None:
        """Replace the lines and paint those that differ."""
        old, self._lines = self._lines, tuple(lines)
        changed = [y for y in range(max(len(old), len(lines))) if old[y : y + 1] != self._lines[y : y + 1]]
        if changed:
            self.refresh(*(Region(0, y, self.size.width, 1) for y in changed))

    def set_height(self, lines: int) -> None:
        """Take this many lines of the screen; the same number again costs nothing."""
        if self.styles.height is None or self.styles.height.value != lines:
            self.styles.height = lines

    @property
    def lines(self) -> tuple[Line, ...]:
        return self._lines

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of `crop` as strips.

        Textual's own method also draws borders, padding and opacity, which these widgets lack, and takes as long for a
        line as drawing it does.
        """
        width = self.size.width
        strips = [self._strip(y, width) for y in crop.line_range]
        for line_filter in self.get_line_filters():
            strips = [strip.apply_filter(line_filter, self.background_colors[1]) for strip in strips]
        if crop.column_span != (0, width):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def _strip(self, y: int, width: int) -> Strip:
        line = self._lines[y] if y < len(self._lines) else ()
        segments = [Segment(printable(text), self._style(role)) for text, role in line]
        return Strip(segments).adjust_cell_length(width, self._style("plain"))

    def notify_style_update(self) -> None:
        """Paint again where a theme gives a role of this widget another look."""
        super().notify_style_update()
        old, self._styles_by_role = self._styles_by_role, {}
        if self.is_attached and any(self._style(role) != style for role, style in old.items()):
            self.refresh()

    def _style(self, role: str) -> Style:
        style = self._styles_by_role.get(role)
        if style is None:
            name, *more = role.split()
            style = self.screen.get_component_rich_style(f"role--{name}")
            style = self._styles_by_role[role] = style + FILLED if more else style
        return style


class Drawn(Painted):
    """What a function of the width and the height returns; whoever has the data calls `redraw`."""

    def __init__(self, draw_lines: Callable[[int, int], Sequence[Line]], *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._draw_lines = draw_lines

    def draw(self, width: int, height: int) -> Sequence[Line]:
        return self._draw_lines(width, height)


class Fitted(Painted):
    """As high as the lines it draws.

    It draws for the width of the screen, because a widget without lines has no size of its own.
    """

    @property
    def room(self) -> tuple[int, int]:
        """The screen's size without the widget's margins."""
        margin = self.styles.margin
        return self.screen.size.width - margin.width, self.screen.size.height - margin.height

    def show(self, lines: Sequence[Line]) -> None:
        """Take as much height as there are lines, then show them."""
        self.set_height(len(lines))
        super().show(lines)


class Notes(Fitted):
    """Lines above or below the body of a screen, drawn by a function of the width."""

    def __init__(self, draw_lines: Callable[[int], Sequence[Line]], *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._draw_lines = draw_lines

    def draw(self, width: int, height: int) -> Sequence[Line]:  # noqa: ARG002 - as high as it gets
        return self._draw_lines(width)


class Wheeled(Painted):
    """A painted widget that handles the mouse wheel."""

    def turn_wheel(self, lines: int) -> None:
        """Handle a turn of the wheel by this many lines, below 0 upwards."""
        raise NotImplementedError

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.turn_wheel(WHEEL_LINES)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.turn_wheel(-WHEEL_LINES)
