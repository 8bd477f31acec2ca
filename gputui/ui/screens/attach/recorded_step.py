"""The base of the screens about a recorded step: how to record one, and what they show without one."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding

from gputui.explain.moment.actions import ACTIONS
from gputui.explain.step.view import recorded_in
from gputui.model.attached.target import ActionName
from gputui.ui.drawing.line import Line, paragraph
from gputui.ui.screens.attach.actions import can_run_actions, confirm_action
from gputui.ui.screens.attach.base import AttachScreen

RECORD_BINDING = Binding("r", "record", "Record", id="step.record", tooltip="record a step, after confirmation")
RECORDING = "Recording: the step is here as soon as whole steps have passed, after half a minute at the latest."
NOT_IN_RECORDING = (
    "No step of the program was recorded in this recording, up to this moment. In a live process the Step screen"
    " records one."
)
ENDED = "The process ended before a step was recorded."
READONLY = "With --readonly gputui does nothing in a program. Start gputui without --readonly to record one."
NOT_THIS_DEVICE = "Nothing was allocated on this device while the step was recorded."


class RecordedStepScreen(AttachScreen):
    """A subclass has `RECORD_BINDING` among its bindings."""

    NOTHING: ClassVar[str] = ""
    """The sentence for a process of which no step was recorded."""
    NO_TRACE: ClassVar[str] = ""
    """The sentence for a file without a trace."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only a live process can be recorded."""
        if action == "record":
            return not self.monitor.state.is_readonly and can_run_actions(self.target)
        return super().check_action(action, parameters)

    def action_record(self) -> None:
        """Record a step, after confirmation."""
        if self.target:
            confirm_action(self, self.target, ActionName.RECORD_STEP)

    def without_step(self, width: int) -> list[Line]:
        """What stands in place of a step: why there is none, and how to record one."""
        moment = self.moment
        if moment is None:
            return self.nothing_yet(width)
        if moment.pending_action is ActionName.RECORD_STEP:
            return paragraph(RECORDING, width, "fair")
        if recorded_in(moment) is not None:
            return paragraph(NOT_THIS_DEVICE, width, "dim")
        if self.player is not None:
            return paragraph(NOT_IN_RECORDING, width, "dim")
        if not can_run_actions(self.target):
            return paragraph(self.NO_TRACE if moment.file else ENDED, width, "dim")
        return [*paragraph(self.NOTHING, width, "plain"), (), *paragraph(self._how_to_record, width, "accent")]

    @property
    def _how_to_record(self) -> str:
        if self.monitor.state.is_readonly:
            return READONLY
        key = self.app.get_key_display(Binding(self.monitor.keymap.get("step.record", "r").partition(",")[0], "", ""))
        return f"Press {key} to record one. {ACTIONS[ActionName.RECORD_STEP].warning}"
