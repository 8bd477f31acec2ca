"""Sentences about the monitor as a whole: why there are no devices, why processes are missing."""

from __future__ import annotations

from gputui.model.snapshot import Snapshot
from gputui.ui.drawing.line import Line, wrap
from gputui.units import format_duration

LINES_AT_MOST = 6


def draw_banner(snapshot: Snapshot, width: int) -> list[Line]:
    """The sentences, wrapped; none where all is well."""
    sentences: list[tuple[str, str]] = []
    if snapshot.devices.problem:
        sentences.append((snapshot.devices.problem, "alarm"))
        sentences.append(("The host is shown below, and NVML is tried again. D opens the demonstration.", "dim"))
    elif not snapshot.devices.devices and not snapshot.devices_age_s:
        sentences.append(("The driver answers and knows no device. D opens the demonstration.", "fair"))
    if snapshot.devices_age_s:
        age = format_duration(snapshot.devices_age_s)
        sentences.append((f"The driver has not answered for {age}: devices and processes are from then.", "alarm"))
    if snapshot.processes.problem:
        sentences.append((snapshot.processes.problem, "fair"))
    return [line for words, role in sentences for line in wrap(words, max(10, width), role)][:LINES_AT_MOST]
