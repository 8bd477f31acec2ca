"""One look as text for people: the overview's tables, then findings and problems, in ASCII for any terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from gputui.model.machine.finding import MachineFinding
from gputui.model.machine.snapshot import Snapshot
from gputui.model.reading import value_of
from gputui.once.document import document
from gputui.output import columns_of, cut, padded
from gputui.settings import Settings
from gputui.ui.drawing.appearance import appearance_of
from gputui.ui.drawing.entries import LOOKS, draw_entry
from gputui.ui.drawing.line import Line, as_text, fit, indented
from gputui.ui.drawing.meters import ASCII
from gputui.ui.drawing.monitor.devices import DEVICE_COLUMNS, PICTURES
from gputui.ui.drawing.monitor.host import draw_host
from gputui.ui.drawing.monitor.overview import draw_devices, draw_processes
from gputui.ui.drawing.monitor.process_rows import View
from gputui.units import format_bytes

_NARROWEST = 40
_DEVICE_COLUMNS = tuple(column for column in DEVICE_COLUMNS if column.name not in PICTURES)
_ALL = 1_000_000
"""More lines than any list has."""


class Column(NamedTuple):
    """A column: its title, the cell of a row, and whether it is text (aligned left) or a number."""

    title: str
    text: Callable[[Any], str]
    is_text: bool = False


def plain(snapshot: Snapshot, width: int, settings: Settings, *, in_color: bool) -> str:
    """The look in lines of at most `width` columns: sentences are wrapped, everything else is cut."""
    width = max(width, _NARROWEST)
    appearance = appearance_of(settings)._replace(glyphs=ASCII)
    lines: list[Line] = [((fit(_heading(snapshot), width, ellipsis="~"), "title"),), ()]
    if snapshot.devices.devices:
        lines += [*draw_devices(snapshot, appearance, width, _ALL, _DEVICE_COLUMNS), ()]
    lines += draw_host(snapshot.host, width, appearance)
    view = View(settings.sort, settings.reverse, lambda row: row.process is not None)
    processes = draw_processes(snapshot, view, settings.columns, appearance, width, _ALL)
    lines += [(), *processes] if len(processes) > 1 else []
    lines += findings_lines(snapshot.findings, width)
    lines += _problems(snapshot, width)
    return "".join(f"{as_text(line, is_colored=in_color)}\n" for line in lines)


def table(columns: Sequence[Column], rows: Iterable[Any], width: int) -> list[str]:
    """A line of titles and a line for each row, with columns as wide as their widest cell, cut at `width`."""
    cells = [[column.title for column in columns], *([_clean(column.text(row)) for column in columns] for row in rows)]
    widths = [max(map(columns_of, column)) for column in zip(*cells, strict=True)]
    return [
        cut(
            "  ".join(
                padded(cell, room) if column.is_text else cell.rjust(room)
                for cell, room, column in zip(line, widths, columns, strict=True)
            ).rstrip(),
            width,
        )
        for line in cells
    ]


def _heading(snapshot: Snapshot) -> str:
    driver = snapshot.devices.driver
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(snapshot.time))
    parts = [snapshot.host.hostname, when]
    parts += [f"driver {version}" for version in [value_of(driver.version)] if version]
    parts += [f"CUDA {version}" for version in [value_of(driver.cuda_version)] if version]
    return "  ".join(parts)


def findings_lines(findings: Iterable[MachineFinding], width: int) -> list[Line]:
    """Each finding with its remedy, the numbers behind it below."""
    lines: list[Line] = []
    for one in findings:
        title = f"{one.where}: {one.title}"
        entry = draw_entry(LOOKS[one.weight], title, width, remedy=one.remedy, sentences=one.evidence)
        lines += [(), *entry]
    return lines


def _problems(snapshot: Snapshot, width: int) -> list[Line]:
    """The problems of the once document, and the memory that no visible process accounts for, in one list."""
    body = document(snapshot, for_scripts=False)
    places = {device.key: device.label for device in snapshot.devices.devices}
    told = {finding.device for finding in snapshot.findings if finding.kind == "unaccounted"}
    sentences = list(body["problems"])
    for device, part in zip(snapshot.devices.devices, body["devices"], strict=True):
        sentences += [f"GPU {device.label}: {text}" for text in part["problems"]]
    sentences += [
        f"GPU {places[part.device]}: {format_bytes(part.used_bytes)} unattributed: {part.cause}"
        for part in snapshot.processes.unattributed
        if part.device not in told
    ]
    lines = [line for text in sentences for line in indented(text, width, " ", "fair")]
    return [(), *lines] if lines else []


def _clean(text: str) -> str:
    """One line without control characters: a command may contain escape sequences that a terminal would obey."""
    return "".join(character if character.isprintable() else "?" for character in text)
