"""The body of the Step screen: the answer, the graph with its cursor, and what is alive there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType

from gputui.explain.step.late import late_at_peak
from gputui.explain.step.layers import column_at
from gputui.explain.step.step import Step
from gputui.explain.step.summary import cost_words, extent, headline, largest_line
from gputui.explain.step.view import StepView
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.attach.step import draw_cursor, draw_graph, draw_holders, draw_legend
from gputui.ui.drawing.line import Line, fit_clauses, paragraph
from gputui.ui.widgets.painted import Wheeled

GRAPH_SHARE = 0.45
LOWEST_GRAPH, HIGHEST_GRAPH = 3, 16
LATE_SHOWN = 2
LOW_PAGE = 24
"""A page of at most this many lines leaves out what the recording cost, and the ends of long sentences."""


class StepPage(Wheeled, can_focus=True):
    """Draws a `StepView`, and moves its cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "walk(-1)", "Back", show=False, id="step.back", tooltip="the previous event"),
        Binding("right,l", "walk(1)", "Forward", show=False, id="step.forward", tooltip="the next event"),
        Binding(
            "pageup", "stride(-1)", "Page back", show=False, id="step.page-back", tooltip="a tenth of the step back"
        ),
        Binding(
            "pagedown",
            "stride(1)",
            "Page forward",
            show=False,
            id="step.page-forward",
            tooltip="a tenth of the step on",
        ),
        Binding("home", "walk(-1000000000)", "First", show=False, id="step.first", tooltip="to the first event"),
        Binding("end,G", "walk(1000000000)", "Last", show=False, id="step.last", tooltip="to the last event"),
        Binding("up,k", "scroll_holders(-1)", "Up", show=False, id="list.up", tooltip="up one line"),
        Binding("down,j", "scroll_holders(1)", "Down", show=False, id="list.down", tooltip="down one line"),
    ]

    def __init__(
        self,
        view: Callable[[], StepView | None],
        appearance: Callable[[], Appearance],
        nothing: Callable[[int], list[Line]],
    ) -> None:
        """`nothing` draws what is shown without a step."""
        super().__init__(id="step")
        self._view = view
        self._appearance = appearance
        self._nothing = nothing
        self._graph_lines = range(0)

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """The whole page."""
        view = self._view()
        step = view.step if view else None
        if view is None or step is None:
            return self._nothing(width)
        head = self._head(view, step, width, has_room=height > LOW_PAGE)
        graph = max(LOWEST_GRAPH, min(HIGHEST_GRAPH, int(height * GRAPH_SHARE) - 2))
        appearance = self._appearance()
        lines = [*head, draw_legend(step, view.columns(width), view.cursor, width, appearance)]
        self._graph_lines = range(len(lines), len(lines) + graph + 2)
        lines += draw_graph(step, view.columns(width), view.cursor, (width, graph), appearance)
        lines.append(draw_cursor(step, view.cursor, width))
        holders = view.holders()
        rows = max(1, height - len(lines) - 1)
        view.top = max(0, min(view.top, len(holders) - rows))
        total = step.timeline.allocated[view.cursor]
        return [*lines, *draw_holders(step, holders[view.top : view.top + rows], view.grouping, total, width)]

    def _head(self, view: StepView, step: Step, width: int, *, has_room: bool) -> list[Line]:
        """The answer first, then the cost of the recording, and what lived longer than it had to."""
        recorded = view.recorded
        cost = cost_words(step, recorded) if recorded else ""
        texts = [
            (largest_line(step), "plain"),
            (extent(step), "dim"),
            *([(cost, "dim")] if cost and has_room else []),
            *((f"lived longer than it had to: {late.words}", "fair") for late in late_at_peak(step)[:LATE_SHOWN]),
        ]
        lines = paragraph(headline(step), width, "title")
        for text, role in texts:
            shown = text if has_room else fit_clauses(text, width - 1)
            lines += paragraph(shown, width, role)[: None if has_room else 1]
        return lines

    def action_walk(self, events: int) -> None:
        """Move the cursor by this many events."""
        view = self._view()
        if view is not None:
            view.go(view.cursor + events)
            self.redraw()

    def action_stride(self, tenths: int) -> None:
        """Move the cursor by this many tenths of the step."""
        view = self._view()
        if view is not None and view.step is not None:
            self.action_walk(tenths * max(1, (view.step.end - view.step.first) // 10))

    def action_scroll_holders(self, lines: int) -> None:
        """Scroll the table of what is alive."""
        view = self._view()
        if view is not None:
            view.top += lines
            self.redraw()

    def turn_wheel(self, lines: int) -> None:
        self.action_scroll_holders(lines)

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the events of the column."""
        view = self._view()
        if view is None or view.step is None or event.y not in self._graph_lines:
            return
        columns = view.columns(self.size.width)
        number = min(event.x // max(1, self.size.width // max(1, len(columns))), len(columns) - 1)
        column = columns[number]
        if column_at(columns, view.cursor) != number:
            view.go(view.step.timeline.peak(column.first, column.end))
        self.redraw()
