"""What stands above the table: why figures are old, who tells them, and what nobody tells."""

from __future__ import annotations

from gputui.explain.fleet.missing import found_words, missing
from gputui.model.fleet.exporters import Exporter
from gputui.model.fleet.fleet import Fleet
from gputui.ui.drawing.line import Line, fit, paragraph
from gputui.units import format_clock, format_duration

LINES_AT_MOST = 4
"""On a screen of 24 lines the table needs the others."""


def draw_fleet_notes(fleet: Fleet, now: float, width: int, ellipsis: str) -> list[Line]:
    """Sentences in at most `LINES_AT_MOST` lines; what does not fit is cut."""
    sentences: list[tuple[str, str]] = []
    if fleet.trouble:
        lasting = f"since {format_clock(fleet.trouble.since)} ({format_duration(now - fleet.trouble.since)})"
        shown = f", figures of {format_clock(fleet.time)}" if fleet.time else ""
        sentences.append((f"No answer {lasting}{shown}: {fleet.trouble.text}", "alarm"))
    elif not fleet.time and not fleet.nodes:
        sentences.append((f"Asking {fleet.server} ...", "dim"))
    silent = [node.place.node for node in fleet.nodes if node.problem and not node.problem.is_brief]
    if silent and len(fleet.nodes) > 1:
        words = f"Of {len(fleet.nodes)} nodes, nothing new is known of {len(silent)} (w says why): {', '.join(silent)}."
        sentences.append((words, "alarm"))
    if (words := found_words(fleet)) and any(found.exporter is not Exporter.SSH for found in fleet.found):
        sentences.append((f"Told by {words}.", "dim"))
    sentences += [(sentence, "dim") for sentence in missing(fleet)]
    lines = [line for words, role in sentences for line in paragraph(words, max(10, width), role)]
    if len(lines) > LINES_AT_MOST:
        (text, role), *_ = lines[LINES_AT_MOST - 1]
        lines = [*lines[: LINES_AT_MOST - 1], ((fit(f"{text} {ellipsis}", width), role),)]
    return lines
