"""The What-if screen: what the recorded step would take under other settings, with another batch, on another device."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputui.explain.whatif.allocator.settings import with_settings
from gputui.explain.whatif.by_hand import case_of
from gputui.explain.whatif.cases import Answer, Case
from gputui.explain.whatif.changes import check
from gputui.explain.whatif.replay.recorded import HOW_TO_RECORD
from gputui.explain.whatif.trace.operations import Kind
from gputui.explain.whatif.view import WhatIfView
from gputui.explain.whatif.words import headline, largest_words, problems_of
from gputui.model.attached.target import ActionName
from gputui.ui.drawing.attach.whatif import (
    CASE_COLUMNS,
    CaseRow,
    draw_curves,
    draw_progress,
    draw_scale,
    scale_of,
)
from gputui.ui.drawing.line import Line, paragraph
from gputui.ui.screens.attach.recorded_step import RECORD_BINDING, RecordedStepScreen
from gputui.ui.widgets.filter_line import FilterLine
from gputui.ui.widgets.listing import Listing
from gputui.ui.widgets.painted import Drawn, Notes
from gputui.ui.widgets.table import Table

PLACEHOLDER = "expandable_segments:True  or a change, bfloat16  or the batch, 4:16  or a device, 24GiB"
ORDERS = {False: "What saves most comes first.", True: "The cheapest change comes first."}
LOW_SCREEN = 30
"""A screen of at most so many lines shows only the first problem."""


class CaseList(Table[CaseRow]):
    """A line for every case, and no head without cases."""

    def draw_head(self, width: int) -> Line:
        return super().draw_head(width) if self.count else ()

    def action_move(self, steps: int) -> None:
        """Move the cursor, and have the curves follow it."""
        super().action_move(steps)
        self.screen.query_one("#curves", Drawn).redraw()


class WhatIfScreen(RecordedStepScreen):
    """Enter shows the curves of the case under the cursor, and hides them again."""

    NAME = "whatif"
    BODY_HAS_VERDICT = True
    NOTHING = (
        "No step has been recorded in this process. From a recorded step, gputui replays what would have been reserved"
        " under other settings of the allocator, with another batch, or on another device."
    )
    NO_TRACE = f"This file holds no allocator trace, and only a trace can be replayed. {HOW_TO_RECORD}"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "e", "add_case", "Add a case", id="whatif.add", tooltip="another setting, batch or device, written by hand"
        ),
        Binding("o", "order", "Order", id="whatif.order", tooltip="by what is saved, or the cheapest change first"),
        Binding("c", "compare", "Curves", id="whatif.compare", tooltip="the curves of the case under the cursor"),
        RECORD_BINDING,
    ]

    @property
    def _view(self) -> WhatIfView | None:
        return self.target.whatif if self.target else None

    def compose_body(self) -> ComposeResult:
        """The answer, the table, the curves."""
        yield Notes(self._draw_head, id="answer")
        ellipsis = self.monitor.appearance.glyphs.ellipsis
        yield CaseList(CASE_COLUMNS, lambda row: row.case, ellipsis=ellipsis, leaves_room=True, id="cases")
        yield Drawn(self._draw_curves, id="curves")
        yield FilterLine(self._check, PLACEHOLDER)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The keys of cases need a trace."""
        if action in {"add_case", "order", "compare"}:
            return self._view is not None and self._view.recorded is not None
        return super().check_action(action, parameters)

    def draw(self) -> None:
        """Draw the cases, and replay them first if the trace is new."""
        view = self._view
        if self.target is not None:
            self.target.replay_cases(self.monitor.attached.hand_over)
        self.query_one("#answer", Notes).redraw()
        cases, curves = self.query_one(CaseList), self.query_one("#curves", Drawn)
        rows = self._rows()
        curves.display = bool(rows) and view is not None and view.is_comparing
        cases.styles.height = min(len(rows) + 1, max(4, self.size.height // 2)) if curves.display else "1fr"
        cases.set_entries(rows)
        curves.redraw()
        self.refresh_bindings()

    def _rows(self) -> tuple[CaseRow, ...]:
        view = self._view
        if view is None or view.recorded is None:
            return ()
        answers = view.rows()
        device = view.recorded.device
        scale = scale_of(answers, device.available_bytes or device.total_bytes)
        appearance = self.monitor.appearance
        own = ",".join(f"{name}:{value}" for name, value in view.recorded.settings.values)
        answered = [CaseRow(answer.case, answer, view.baseline, scale, appearance) for answer in answers]
        answered = [replace(row, own_settings=own) if row.answer is view.baseline else row for row in answered]
        return (*answered, *(CaseRow(case, None, view.baseline, scale, appearance) for case in view.waiting))

    def _draw_head(self, width: int) -> list[Line]:
        view, moment = self._view, self.moment
        if view is None or moment is None or (view.recorded is None and not view.is_building):
            return self.without_step(width)
        if moment.pending_action is ActionName.RECORD_STEP:
            return self.without_step(width)
        if view.problem:
            return paragraph(view.problem, width, "fair")
        if view.is_building or view.baseline is None or view.recorded is None:
            words = view.waiting[0].label if view.waiting else "the trace is being read"
            return [draw_progress(view.share, words, width, self.monitor.appearance)]
        problems = problems_of(view.recorded, view.baseline)
        shown = problems[:1] if self.size.height <= LOW_SCREEN else problems
        rows = self._rows()
        return [
            *paragraph(headline(view.baseline, view.answers), width, "title"),
            *(paragraph(largest_words(view.largest), width, "plain") if view.largest else ()),
            *(line for problem in shown for line in paragraph(problem, width, "fair")),
            *paragraph(f"{draw_scale(rows[0].scale)} {ORDERS[view.is_cheapest_first]}", width, "dim"),
        ]

    def _draw_curves(self, width: int, height: int) -> list[Line]:
        """The curves of the case under the cursor against the recorded settings."""
        view, row = self._view, self.query_one(CaseList).current
        if view is None or view.baseline is None or row is None or row.answer is None or height < 3:
            return []
        counts = self._operations(view.baseline), self._operations(row.answer)
        return draw_curves(view.baseline, row.answer, counts, (width, height), self.monitor.appearance)

    def _operations(self, answer: Answer) -> int:
        """How many operations the replay of a case has if memory does not run out."""
        assert self._view is not None
        assert self._view.recorded is not None
        kinds = self._view.recorded.operations.kinds
        return len(kinds) if answer.case.has_empty_cache else len(kinds) - kinds.count(Kind.EMPTY_CACHE)

    @on(Listing.Chosen)
    def action_compare(self) -> None:
        """Show the curves of the case under the cursor, or hide them again."""
        if self._view is not None:
            self._view.is_comparing = not self._view.is_comparing
        self.draw()

    def action_order(self) -> None:
        """Show what saves most first, or the cheapest change."""
        if self._view is not None:
            self._view.is_cheapest_first = not self._view.is_cheapest_first
        self.draw()

    def action_add_case(self) -> None:
        """Ask for a setting, a batch or a device."""
        self.query_one(FilterLine).open("")

    def _check(self, words: str) -> str:
        """The label of the case that the words describe; raises UsageError where it cannot be replayed."""
        if not words.strip():
            return ""
        return self._case(words).label

    def _case(self, words: str) -> Case:
        case = case_of(words)
        if self._view is not None and self._view.recorded is not None:
            with_settings(self._view.recorded.settings, case.settings)
            check(self._view.recorded.operations, self._view.recorded.parts, case.changes)
        return case

    @on(FilterLine.Closed)
    def _add(self) -> None:
        line, cases = self.query_one(FilterLine), self.query_one(CaseList)
        if line.value.strip() and self._view is not None:
            self._view.ask(self._case(line.value))
        line.value = ""
        self.set_focus(cases)
        self.draw()
