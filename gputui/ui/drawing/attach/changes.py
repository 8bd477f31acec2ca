"""The Changes screen: what was allocated and freed between two moments, and how the counters moved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.cells import cell_len

from gputui.explain.owners.names import counted, listed
from gputui.model.attached.analysis import Changes, TensorGroup
from gputui.ui.drawing.line import Line, Piece, fit, fit_line, paragraph, width_of
from gputui.units import format_bytes, format_clock

COUNTERS = (
    ("reserved", "reserved_bytes"),
    ("allocated", "allocated_bytes"),
    ("peak reserved", "peak_reserved_bytes"),
    ("peak allocated", "peak_allocated_bytes"),
)

NO_CHANGES = "Nothing was allocated or freed."


@dataclass(frozen=True, slots=True)
class End:
    """One of the two moments: a mark's name or "now", its time, and the time of the look it is based on."""

    label: str
    time: float
    look_time: float


def draw_changes(changes: Changes, ends: tuple[End, End], width: int) -> list[Line]:
    """The two moments, the counters, then every group that was allocated or freed, the largest first."""
    room = min(max(cell_len(end.label) for end in ends), max(8, width - 40))
    lines = [*(_end(name, end, room, width) for name, end in zip(("From", "To"), ends, strict=True)), ()]
    lines += [_counter(name, attribute, changes, width) for name, attribute in COUNTERS]
    lines.append(())
    if changes.problem:
        return lines + paragraph(changes.problem, width, "fair")
    lines.append(_totals(changes, width))
    moved = [("+", group) for group in changes.came] + [("-", group) for group in changes.went]
    moved.sort(key=lambda entry: -entry[1].bytes)
    if not moved:
        lines.append(((fit(f" {NO_CHANGES}", width), "dim"),))
    return lines + [_group(sign, group, width) for sign, group in moved]


def _end(name: str, end: End, room: int, width: int) -> Line:
    pieces = [
        (f" {name:<5}", "dim"),
        (fit(end.label, room), "title"),
        (f"  {format_clock(end.time)}  ", "plain"),
        (_looked_at(end), "dim"),
    ]
    return fit_line(pieces, width)


def _looked_at(end: End) -> str:
    offset_s = end.look_time - end.time
    if not end.look_time:
        return "no look"
    if abs(offset_s) < 0.05:
        return "look taken at that time"
    return f"look taken {abs(offset_s):.1f} s {'later' if offset_s > 0 else 'earlier'}"


def _counter(name: str, attribute: str, changes: Changes, width: int) -> Line:
    before, after = int(getattr(changes.before, attribute)), int(getattr(changes.after, attribute))
    figures = f"{format_bytes(before):>10}  {format_bytes(after):>10}  "
    return fit_line([(f" {name:<15}", "dim"), (figures, "plain"), _signed(after - before)], width)


def _signed(difference: int) -> Piece:
    if not difference:
        return ("unchanged", "dim")
    sign, role = ("+", "poor") if difference > 0 else ("-", "good")
    return (f"{sign}{format_bytes(abs(difference))}", role)


def _totals(changes: Changes, width: int) -> Line:
    came = f"+ {format_bytes(changes.came_bytes)} allocated in {counted(_count(changes.came), 'block')}"
    went = f"- {format_bytes(changes.went_bytes)} freed in {counted(_count(changes.went), 'block')}"
    return ((fit(f" {came}, {went}, {format_bytes(changes.stayed_bytes)} stayed", width), "head"),)


def _count(groups: Iterable[TensorGroup]) -> int:
    return sum(group.count for group in groups)


def _group(sign: str, group: TensorGroup, width: int) -> Line:
    """`+ 7 x (512, 512, 3, 3) float32 Parameter 63.0 MiB`, with category and names where there is room."""
    role = "poor" if sign == "+" else "good"
    what = f"{group.count:,} x {group.shape or '()'} {group.dtype} {group.type}" if group.type else f"{group.count:,} x"
    size, category = f"{format_bytes(group.bytes):>9}", group.category.words
    line: list[Piece] = [
        (f" {sign} ", role),
        (fit(what, max(20, min(56, width - 44))), "plain"),
        (f" {size}", role),
        (f"  {category}", "dim"),
    ]
    names = f"  {listed(group.names)}" if group.names else ""
    left = width - width_of(line)
    return fit_line([*line, (names if cell_len(names) <= left else fit(names, max(0, left)), "dim")], width)
