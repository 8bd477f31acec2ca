"""The Memory screen: one bar of the whole device, one of what PyTorch has reserved, and their parts by name."""

from __future__ import annotations

from collections.abc import Sequence

from gputui.explain.answer.verdict import Verdict
from gputui.explain.memory.parts import CACHE_SINCE, OUTER, SINCE, TENSORS_SINCE, Part, drawn, parts_of
from gputui.model.attached.moment import DeviceMoment, TargetMoment
from gputui.model.reading import Absent
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.line import Line, Piece, fill_lines, fit, fit_line, join, paragraph, width_of
from gputui.units import format_bytes, format_bytes_signed, format_duration

NARROWEST_COLUMN = 38


def draw_bar(parts: Sequence[Part], width: int, appearance: Appearance) -> list[Line]:
    """The parts to scale, left to right; a part has at least one cell, and its letter in the first."""
    parts = drawn(parts)
    if not parts or width < 1:
        return []
    cells = _cells(parts, width)
    fill = "=" if appearance.is_ascii else "█"
    fills = {part.key: appearance.glyphs.empty if part.key == "free" else fill for part in parts}
    return [join((part.letter + fills[part.key] * (count - 1), f"part-{part.key}") for part, count in cells)]


def _cells(parts: Sequence[Part], width: int) -> list[tuple[Part, int]]:
    """The cells of every part: at least one as long as there are enough, the rest in proportion."""
    shown = sorted(parts, key=lambda part: -part.bytes)[:width]
    total = sum(part.bytes for part in shown)
    spare = width - len(shown)
    counts = {part.key: 1 + spare * part.bytes // total for part in shown}
    left = width - sum(counts.values())
    for part in shown[:left]:
        counts[part.key] += 1
    return [(part, counts[part.key]) for part in parts if part.key in counts]


def draw_legend(parts: Sequence[Part], total: int, width: int, appearance: Appearance) -> list[Line]:
    """The parts by name with bytes and their share of `total` bytes, in as many columns as fit."""
    columns = max(1, min(3, width // NARROWEST_COLUMN))
    cells_each = width // columns
    height = -(-len(parts) // columns)
    lines = []
    for row in range(height):
        cells = [parts[place] for place in range(row, len(parts), height)]
        lines.append(join(piece for part in cells for piece in _entry(part, total, cells_each, appearance)))
    return lines


def _entry(part: Part, total: int, width: int, appearance: Appearance) -> list[Piece]:
    swatch = part.letter if appearance.is_ascii else f"{part.letter}█"
    numbers = f"{format_bytes(part.bytes):>9} {100 * part.bytes / total:5.1f}%" if total else format_bytes(part.bytes)
    room = max(4, width - len(swatch) - len(numbers) - 4)
    return [(f" {swatch} ", f"part-{part.key}"), (fit(part.name, room), "plain"), (f"{numbers}  "[:width], "plain")]


def draw_since(
    moment: TargetMoment, device: DeviceMoment, parts: Sequence[Part], width: int, appearance: Appearance
) -> list[Line]:
    """One line: by how much the counters differ from the look that the other parts come from, and how old it is.

    In a file all is of one moment, so there is no such line.
    """
    sizes = {part.key: part for part in parts if part.key in SINCE}
    if device.layout is None or (moment.file is not None and not sizes):
        return []
    if moment.is_top:
        return [((fit("   All of it is of that moment, near the top of a step.", width), "dim"),)]
    what = "the look at the tensors" if device.layout.names_time else "the last look"
    age = format_duration(moment.time - (device.layout.names_time or moment.look_time))
    since = f" since {what}, {age} ago"
    if not sizes:
        return [((fit(f"   Nothing has changed{since}.", width), "dim"),)]
    words = {TENSORS_SINCE: "in tensors", CACHE_SINCE: "free"}
    pieces: list[Piece] = []
    for key, where in words.items():
        if key in sizes:
            swatch = sizes[key].letter if appearance.is_ascii else f"{sizes[key].letter}█"
            pieces += [(f" {swatch} ", f"part-{key}"), (f"{format_bytes_signed(sizes[key].bytes)} {where}", "plain")]
    if width_of(pieces) + len(since) > width:
        since = f" since the look {age} ago"
    return [fit_line([*pieces, (since, "dim")], width)]


def draw_counters(device: DeviceMoment, width: int) -> list[Line]:
    """Allocated, active and reserved with their peaks; retries and out-of-memory errors."""
    statistics = device.statistics
    figures = (
        (
            "allocated",
            format_bytes(statistics.allocated_bytes),
            f"peak {format_bytes(statistics.peak_allocated_bytes)}",
        ),
        ("active", format_bytes(statistics.active_bytes), f"peak {format_bytes(statistics.peak_active_bytes)}"),
        ("reserved", format_bytes(statistics.reserved_bytes), f"peak {format_bytes(statistics.peak_reserved_bytes)}"),
    )
    groups: list[list[Piece]] = [
        [(f" {name} ", "dim"), (now, "plain"), (f" ({peak}) ", "dim")] for name, now, peak in figures
    ]
    troubles = (("retries", statistics.num_alloc_retries), ("out of memory", statistics.num_ooms))
    groups += [[(f" {name} ", "dim"), (f"{count} ", "poor" if count else "plain")] for name, count in troubles]
    return fill_lines(groups, width)


def draw_division(device: DeviceMoment, verdict: Verdict, width: int, appearance: Appearance) -> list[Line]:
    """One bar of the device as its server divides it, with the legend, and what the server's cache holds."""
    parts = [Part(one.facts.drawn_as, one.facts.letter, one.facts.short, one.bytes) for one in verdict.divided]
    title = f" Device {device.number}: {format_bytes(verdict.served_bytes)}, as its server divides it"
    lines: list[Line] = [((fit(title, width), "title"),)]
    lines += draw_bar(parts, width, appearance)
    lines += draw_legend(parts, verdict.served_bytes, width, appearance)
    for note in verdict.notes:
        lines += paragraph(note, width, "plain")
    return lines


def draw_memory(
    moment: TargetMoment, device: DeviceMoment, width: int, appearance: Appearance, verdict: Verdict | None = None
) -> list[Line]:
    """Two bars, of the device and of what PyTorch has reserved, each with its legend; and the counters.

    The percentages are of what the title above them names. An inference server's division has one bar for both.
    """
    if verdict is not None and verdict.served and not moment.is_top:
        return [*draw_division(device, verdict, width, appearance), *draw_counters(device, width)]
    not_yet = verdict.not_yet if verdict else ""
    parts = parts_of(device)
    total, reserved = device.driver.device_total_bytes, device.statistics.reserved_bytes
    whole = "" if isinstance(total, Absent) else f" of {format_bytes(total)}"
    title = f" Device {device.number}{whole}"
    lines: list[Line] = [((fit(title, width), "title"),)]
    lines += draw_bar(parts, width, appearance)
    if not isinstance(total, Absent):
        lines += draw_legend([part for part in parts if part.key in OUTER], total, width, appearance)
    share = "" if isinstance(total, Absent) or not total else f", {100 * reserved / total:.1f}% of the device"
    lines.append(((fit(f" Reserved by PyTorch: {format_bytes(reserved)}{share}", width), "title"),))
    inside = [part for part in parts if part.key not in OUTER]
    lines += draw_bar(inside, width, appearance)
    lines += draw_legend([part for part in inside if part.key not in SINCE], reserved, width, appearance)
    if not_yet and not moment.is_top:
        lines.append(((fit(f"   {not_yet}", width), "fair"),))
    lines += draw_since(moment, device, inside, width, appearance)
    lines += draw_counters(device, width)
    if device.layout is None and not moment.problems:
        lines.append(((fit(" Waiting for the first look at the allocator's segments ...", width), "dim"),))
    return lines
