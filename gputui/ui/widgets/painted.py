"""The base of all widgets here: lines of pieces become strips, and only lines that differ are painted again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from gputui.ui.drawing.line import Line, printable
from gputui.ui.drawing.roles import COMPONENT_CLASSES

WHEEL_LINES = 3

FILLED = Style(reverse=True)


class Painted(Widget):
    """A widget that shows the lines it was given last.

    Subclasses call `show` with new lines; a line beyond the last is blank. The role of a piece may end with " filled":
    then its colour is the background.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENT_CLASSES

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, classes=classes)
        self._lines: tuple[Line, ...] = ()
        self._styles_by_role: dict[str, Style] = {}

    def show(self, lines: tuple[Line, ...]) -> None:
        """Replace the lines; those that are equal cost nothing."""
        old, self._lines = self._lines, lines
        changed = [y for y in range(max(len(old), len(lines))) if old[y : y + 1] != lines[y : y + 1]]
        if changed:
            self.refresh(*(Region(0, y, self.size.width, 1) for y in changed))

    @property
    def lines(self) -> tuple[Line, ...]:
        """What is shown."""
        return self._lines

    def render_line(self, y: int) -> Strip:
        """Line `y` as a strip of the widget's width."""
        line = self._lines[y] if y < len(self._lines) else ()
        segments = [Segment(printable(text), self._style(role)) for text, role in line]
        return Strip(segments).adjust_cell_length(self.size.width, self._style("plain"))

    def notify_style_update(self) -> None:
        """A theme or a class changed: styles are looked up anew."""
        self._styles_by_role.clear()
        super().notify_style_update()

    def _style(self, role: str) -> Style:
        style = self._styles_by_role.get(role)
        if style is None:
            name, *more = role.split()
            style = self.get_component_rich_style(f"role--{name}")
            style = self._styles_by_role[role] = style + FILLED if more else style
        return style


class Notes(Painted):
    """Lines about what stands below them, or above: as high as there are lines."""

    def set_lines(self, lines: Sequence[Line]) -> None:
        """Show these lines and take as much height."""
        if self.styles.height is None or self.styles.height.value != len(lines):
            self.styles.height = len(lines)
        self.show(tuple(lines))


class Wheeled(Painted):
    """A painted widget that the mouse wheel moves through."""

    def turn_wheel(self, lines: int) -> None:
        """The wheel turned by so many lines."""
        raise NotImplementedError

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Down."""
        event.stop()
        self.turn_wheel(WHEEL_LINES)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Up."""
        event.stop()
        self.turn_wheel(-WHEEL_LINES)
