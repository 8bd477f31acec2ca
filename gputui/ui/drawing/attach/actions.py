"""An action in the attached process: that it is under way, or its result."""

from __future__ import annotations

from gputui.explain.actions import ACTIONS
from gputui.model.target import ActionName
from gputui.model.verdict import Outcome
from gputui.ui.drawing.line import Line, join, paragraph, width_of

PUT_AWAY = "Esc closes this."


def draw_action(pending_action: ActionName | None, outcome: Outcome | None, width: int) -> list[Line]:
    """Lines of at most `width` cells; none where there is no action to report."""
    if pending_action:
        text = (
            f"{ACTIONS[pending_action].call}: waiting for the program's main thread to reach the next line of Python."
        )
        return paragraph(text, width, "fair")
    if outcome is None:
        return []
    lines = paragraph(" ".join(outcome.sentences), width, "good" if outcome.is_as_predicted else "fair")
    if width_of(lines[-1]) + len(PUT_AWAY) + 2 <= width:
        return [*lines[:-1], join((*lines[-1], (f"  {PUT_AWAY}", "dim")))]
    return [*lines, ((f" {PUT_AWAY}", "dim"),)]
