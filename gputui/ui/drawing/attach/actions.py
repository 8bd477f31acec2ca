"""An action in the attached process: what is expected of it, that it is under way, and what came of it."""

from __future__ import annotations

from gputui.explain.actions import CALLS
from gputui.model.analysis import Outcome
from gputui.model.moment import TargetMoment
from gputui.model.target import ActionName
from gputui.ui.drawing.line import Line, join, paragraph, width_of
from gputui.units import format_bytes, format_duration

PUT_AWAY = "Esc puts this away."


def draw_prediction(moment: TargetMoment) -> list[str]:
    """A line for each device: what `empty_cache()` would give back, and how old the look is that says so."""
    age = format_duration(max(0.0, moment.time - moment.look_time))
    lines = [
        f"device {device.index}: {format_bytes(device.layout.release.releasable_bytes)} predicted, of"
        f" {format_bytes(device.statistics.reserved_bytes)} reserved (look {age} ago)"
        for device in moment.devices
        if device.layout
    ]
    return lines or ["nothing can be predicted: there is no look at the allocator's map"]


def draw_action(pending_action: ActionName | None, outcome: Outcome | None, width: int) -> list[Line]:
    """Lines of at most `width` cells; none where nothing is to be told."""
    if pending_action:
        text = (
            f"{CALLS[pending_action]}: under way, as soon as the program's main thread is between two lines of Python."
        )
        return paragraph(text, width, "fair")
    if outcome is None:
        return []
    lines = paragraph(" ".join(outcome.sentences), width, "good" if outcome.is_as_predicted else "fair")
    if width_of(lines[-1]) + len(PUT_AWAY) + 2 <= width:
        return [*lines[:-1], join((*lines[-1], (f"  {PUT_AWAY}", "dim")))]
    return [*lines, ((f" {PUT_AWAY}", "dim"),)]
