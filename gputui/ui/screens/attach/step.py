"""The Step screen: the allocations of a step over its events, and who was alive at each."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.dom import DOMNode

from gputui.explain.step.view import StepView, recorded_in
from gputui.explain.whatif.replay.recorded import HOW_TO_RECORD
from gputui.model.attached.target import ActionName
from gputui.ui.drawing.line import Line, paragraph
from gputui.ui.screens.attach.recorded_step import RECORD_BINDING, RecordedStepScreen
from gputui.ui.widgets.attach.step_page import StepPage

WORKING = "Working out what was alive when ..."
RISES = 20
"""How many of the largest allocations the keys go through."""


class StepScreen(RecordedStepScreen):
    """A graph of the step with a cursor, and below it what is alive at the event under the cursor."""

    NAME = "step"
    NOTHING = (
        "No step has been recorded in this process. A recorded step shows every allocation from forward to optimizer,"
        " who holds the memory at the peak, since when, and until when."
    )
    NO_TRACE = f"This file holds no allocator trace, so it shows one moment and not a step. {HOW_TO_RECORD}"
    PARTS_WITH_KEYS: ClassVar[tuple[type[DOMNode], ...]] = (StepPage,)
    LAST_KEYS = RecordedStepScreen.LAST_KEYS | {"attach.look"}

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "peak", "Top", id="step.peak", tooltip="to the peak"),
        Binding("f", "phase(1)", "Phase", id="step.next-phase", tooltip="to the next phase"),
        Binding("F", "phase(-1)", "Phase before", show=False, id="step.phase-before", tooltip="to the phase before"),
        Binding("n", "rise(1)", "Rise", id="step.next-rise", tooltip="to the next smaller of the largest allocations"),
        Binding("N", "rise(-1)", "Larger rise", show=False, id="step.larger-rise", tooltip="to the next larger one"),
        Binding("g", "group", "Group", id="step.group", tooltip="by line, module, size or kind"),
        Binding("w", "whole", "Whole", show=False, id="step.whole", tooltip="the whole recording, or one step"),
        RECORD_BINDING,
    ]

    def __init__(self) -> None:
        super().__init__()
        self._rise = -1

    @property
    def _view(self) -> StepView | None:
        return self.target.step if self.target else None

    def _draw_verdict(self, width: int) -> list[Line]:
        """A step begins with its own answer, which takes the place of the verdict on the present."""
        return [] if self._view is not None and self._view.step is not None else super()._draw_verdict(width)

    def compose_body(self) -> ComposeResult:
        yield StepPage(lambda: self._view, lambda: self.monitor.appearance, self._draw_nothing)

    def draw(self) -> None:
        """Draw the step, and work it out first if it is new."""
        target, device = self.target, self.device
        latest = target.timeline.latest if target else None
        if target is not None and latest is not None and device is not None:
            target.step.follow(recorded_in(latest), device.index, self.monitor.attached.build_step)
        self.query_one(StepPage).redraw()

    def _draw_nothing(self, width: int) -> list[Line]:
        is_building = self._view is not None and self._view.is_building
        is_recording = self.moment is not None and self.moment.pending_action is ActionName.RECORD_STEP
        return paragraph(WORKING, width, "dim") if is_building and not is_recording else self.without_step(width)

    def action_peak(self) -> None:
        view = self._view
        if view is not None and view.step is not None:
            self._go(view.step.peak)

    def action_phase(self, steps: int) -> None:
        """Go to where the next phase begins, or the one before; after the last comes the first."""
        view = self._view
        if view is None or view.step is None:
            return
        firsts = [run.first for run in view.step.phases_within()]
        following = [first for first in firsts if (first - view.cursor) * steps > 0]
        nearest = (min(following) if steps > 0 else max(following)) if following else firsts[0 if steps > 0 else -1]
        self._go(nearest)

    def action_rise(self, steps: int) -> None:
        """Go through the largest allocations, the largest first."""
        view = self._view
        if view is None or view.step is None:
            return
        rises = view.step.rises(RISES)
        if rises:
            self._rise = max(0, min(self._rise + steps, len(rises) - 1))
            self._go(rises[self._rise])

    def action_group(self) -> None:
        if self._view is not None:
            self._view.next_grouping()
        self.draw()

    def action_whole(self) -> None:
        """Show the whole recording, or one step again."""
        if self._view is not None:
            self._view.toggle_whole_trace()
        self.draw()

    def _go(self, event: int) -> None:
        if self._view is not None:
            self._view.go(event)
        self.draw()
