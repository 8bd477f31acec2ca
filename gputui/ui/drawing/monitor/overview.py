"""The overview as a whole: how its parts share the screen, the sentences above them, and all of it as lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gputui.model.machine.snapshot import Snapshot
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.columns import (
    Column,
    draw_row,
    draw_sorted_titles,
    draw_titles,
    lay_out,
    mark_place,
    place_width,
    worth_showing,
)
from gputui.ui.drawing.line import Line, wrap
from gputui.ui.drawing.monitor.devices import DEVICE_COLUMNS, DeviceRow, draw_device
from gputui.ui.drawing.monitor.host import draw_host
from gputui.ui.drawing.monitor.process_rows import PROCESS_ORDER_BY_NAME, View, process_rows_of
from gputui.ui.drawing.monitor.processes import PROCESS_COLUMN_BY_NAME
from gputui.ui.drawing.monitor.status import MonitorState, draw_status
from gputui.units import format_duration

STATUS_LINES = KEYS_LINES = 1
HOST_LINES = 2
BAND_LINES = 7
"""The band of graphs: a title, five lines and an axis."""
BAND_FROM_WIDTH = 120
PROCESS_LINES_AT_LEAST = 9
"""A head and eight rows."""
BANNER_LINES_AT_MOST = 6


NO_DEVICES = (
    "NVML works but reports no devices. A container or virtual machine needs the GPU passed to it, for example with "
    "docker run --gpus all. D opens the demonstration."
)


class Arrangement(NamedTuple):
    """Lines of the device list (its head included, 0 without devices), and whether there is a band of graphs."""

    device_lines: int
    has_band: bool


def arrange(snapshot: Snapshot, width: int, height: int) -> Arrangement:
    """Give every device a line, unless the processes would have too few; the band of graphs takes what is left."""
    around = STATUS_LINES + HOST_LINES + KEYS_LINES
    count = len(snapshot.devices.devices)
    device_lines = min(count + 1, max(4, height - around - PROCESS_LINES_AT_LEAST)) if count else 0
    rows = sum(len(process.uses) for process in snapshot.processes.processes)
    process_lines = max(PROCESS_LINES_AT_LEAST, min(rows + 3, height // 2))
    left = height - around - device_lines - process_lines
    return Arrangement(device_lines, has_band=width >= BAND_FROM_WIDTH and left >= BAND_LINES)


def draw_banner(snapshot: Snapshot, width: int) -> list[Line]:
    """Why there are no devices, why processes are missing; no lines where all is well, or nothing was read yet."""
    if not snapshot.time:
        return []
    sentences: list[tuple[str, str]] = []
    if snapshot.devices.problem:
        sentences.append((snapshot.devices.problem, "alarm"))
        sentences.append(("The host is shown below. gputui keeps trying NVML; D opens the demonstration.", "dim"))
    elif not snapshot.devices.devices and not snapshot.devices_age_s:
        sentences.append((NO_DEVICES, "fair"))
    if snapshot.devices_age_s:
        age = format_duration(snapshot.devices_age_s)
        sentences.append(
            (
                f"The driver has not answered for {age}: devices and processes are as of then. dmesg may show why.",
                "alarm",
            )
        )
    if snapshot.processes.problem:
        sentences.append((snapshot.processes.problem, "fair"))
    lines = [line for words, role in sentences for line in wrap(words, max(10, width), role)]
    return lines[:BANNER_LINES_AT_MOST]


def draw_overview(
    snapshot: Snapshot, view: View, columns: Sequence[str], appearance: Appearance, width: int, height: int
) -> list[Line]:
    """The overview as its widgets show it, but for the graphs, which need a history, and the line of keys."""
    if width < 1 or height < 1:
        return []
    arrangement = arrange(snapshot, width, height)
    lines = [draw_status(snapshot, MonitorState(), width)]
    lines += [((" ", "plain"), *line) for line in draw_banner(snapshot, width - 2)]
    if arrangement.device_lines:
        lines += draw_devices(snapshot, appearance, width, arrangement.device_lines)
    lines += draw_host(snapshot.host, width, appearance)
    if arrangement.has_band:
        lines += [()] * BAND_LINES
    room = height - len(lines) - KEYS_LINES
    if room > 0:
        lines += draw_processes(snapshot, view, columns, appearance, width, room)
    return lines[:height]


def draw_devices(
    snapshot: Snapshot,
    appearance: Appearance,
    width: int,
    height: int,
    columns: Sequence[Column[DeviceRow]] = DEVICE_COLUMNS,
) -> list[Line]:
    """The list of devices with its head, in at most `height` lines."""
    rows = [DeviceRow(device, (), appearance) for device in snapshot.devices.devices]
    layout = lay_out(worth_showing(columns, rows), width, place_width(len(rows), height - 1))
    head = mark_place(draw_titles(layout), 0, len(rows), height - 1, width)
    return [head, *(draw_device(layout, row, width) for row in rows[: height - 1])]


def draw_processes(
    snapshot: Snapshot, view: View, columns: Sequence[str], appearance: Appearance, width: int, height: int
) -> list[Line]:
    """The list of processes with its head, in at most `height` lines."""
    rows = process_rows_of(snapshot, view, appearance)
    layout = lay_out(worth_showing((PROCESS_COLUMN_BY_NAME[name] for name in columns), rows), width)
    titles = draw_sorted_titles(
        layout, PROCESS_ORDER_BY_NAME[view.order], appearance.glyphs, is_reversed=view.is_reversed
    )
    head = mark_place(titles, 0, len(rows), height - 1, width)
    return [head, *(draw_row(layout, row, appearance.glyphs.ellipsis) for row in rows[: height - 1])]
