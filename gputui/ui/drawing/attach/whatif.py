"""The What-if screen: a line for every case with its bar, and the curves of reserved memory of two of them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from gputui.explain.whatif.cases import Answer, Case, Known
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.columns import Column
from gputui.ui.drawing.line import Line, Piece, fit, join, width_of, with_mark
from gputui.ui.drawing.meters import meter
from gputui.units import format_bytes, format_bytes_short, format_bytes_signed

FARTHEST = 4
"""A device of more than this many times the largest peak is not drawn in the bars, which would be too short to read."""
AXIS_CELLS = 7
KNOWN_ROLES = {Known.EXACT: "good", Known.SCALED: "fair", Known.ESTIMATED: "fair"}


@dataclass(frozen=True, slots=True)
class Scale:
    """What a full bar stands for, and the device's memory, both in bytes; `device_bytes` None where it is not known."""

    top_bytes: int
    device_bytes: int | None

    @property
    def has_device(self) -> bool:
        """Whether the device's size is within the bars."""
        return self.device_bytes is not None and self.device_bytes <= self.top_bytes


@dataclass(frozen=True, slots=True)
class CaseRow:
    """A case in the table; `answer` is None until it is replayed."""

    case: Case
    answer: Answer | None
    baseline: Answer | None
    scale: Scale
    appearance: Appearance
    own_settings: str = ""


def scale_of(answers: Sequence[Answer], device_bytes: int | None) -> Scale:
    """One scale for all bars: the largest peak, or the device where that is not much more."""
    top = max([1, *(answer.outcome.peak_reserved_bytes for answer in answers)])
    is_near = device_bytes is not None and top < device_bytes <= FARTHEST * top
    return Scale(device_bytes if is_near and device_bytes else top, device_bytes)


def _label(row: CaseRow) -> Piece:
    own = f" ({row.own_settings})" if row.own_settings else ""
    return (f" {row.case.label}{own}", "title" if row.answer is row.baseline and row.answer else "plain")


def _peak(row: CaseRow) -> Piece:
    if row.answer is None:
        return ("...", "dim")
    outcome = row.answer.outcome
    if outcome.is_out_of_memory:
        return ("no memory", "alarm")
    return (format_bytes(outcome.peak_reserved_bytes), "plain")


def _change(row: CaseRow) -> Piece:
    if row.answer is None or row.baseline is None or row.answer is row.baseline:
        return ("", "plain")
    if row.answer.outcome.is_out_of_memory or row.baseline.outcome.is_out_of_memory:
        return ("", "plain")
    change = row.answer.outcome.peak_reserved_bytes - row.baseline.outcome.peak_reserved_bytes
    if not change:
        return ("same", "dim")
    return (format_bytes_signed(change), "good" if change < 0 else "poor")


def _spare(row: CaseRow) -> Piece:
    """What is left of the device at the peak."""
    limit = row.case.device_memory_bytes or row.scale.device_bytes
    if row.answer is None or limit is None or row.answer.outcome.is_out_of_memory:
        return ("", "plain")
    spare = limit - row.answer.outcome.peak_reserved_bytes
    return (format_bytes_signed(spare) if spare < 0 else format_bytes(spare), "poor" if spare < 0 else "plain")


def _known(row: CaseRow) -> Piece:
    return (row.answer.known.value, KNOWN_ROLES[row.answer.known]) if row.answer else ("", "plain")


def _bar(row: CaseRow, width: int) -> Sequence[Piece]:
    """The peak on the common scale, with a mark where the device ends."""
    scale, outcome = row.scale, row.answer.outcome if row.answer else None
    if outcome is None:
        return [(" " * width, "plain")]
    limit = row.case.device_memory_bytes or scale.device_bytes
    is_over = outcome.is_out_of_memory or (limit is not None and outcome.peak_reserved_bytes > limit)
    role = "alarm" if is_over else "accent" if row.answer is row.baseline else "good"
    bar: Line = meter(outcome.peak_reserved_bytes / scale.top_bytes, width, role, row.appearance.glyphs)
    if limit is None or limit > scale.top_bytes:
        return bar
    place = min(width - 1, int(limit / scale.top_bytes * width))
    return with_mark(bar, place, "|" if row.appearance.is_ascii else "┃", "alarm")


def _count(name: str) -> Column[CaseRow]:
    def text(row: CaseRow) -> Piece:
        return (format_bytes(getattr(row.answer.outcome, f"{name}_bytes")) if row.answer else "", "plain")

    return Column(name, name.replace("_", " ").capitalize(), 14, text, align=">", from_width=130)


CASE_COLUMNS: tuple[Column[CaseRow], ...] = (
    Column("case", " Case", 34, _label, grow=1, most=70, is_kept=True),
    Column("reserved", "Peak", 9, _peak, align=">", is_kept=True),
    Column("change", "Change", 10, _change, align=">", is_kept=True),
    Column("spare", "To spare", 9, _spare, align=">", from_width=100),
    Column("known", "Known", 9, _known, is_kept=True),
    Column("bar", "Reserved", 10, draw=_bar, grow=2, is_kept=True),
    _count("peak_allocated"),
    _count("stuck"),
    Column(
        "retries",
        "Retries",
        7,
        lambda row: (str(row.answer.outcome.retries) if row.answer else "", "plain"),
        align=">",
        from_width=130,
    ),
)
"""Stuck is what is reserved at the end of the trace and free, but cannot be released."""


def draw_scale(scale: Scale) -> str:
    """What the end of the bars stands for, in words."""
    if scale.has_device and scale.device_bytes:
        return f"The mark in the bars is what PyTorch can have: {format_bytes(scale.device_bytes)}."
    if scale.device_bytes:
        return f"A full bar is {format_bytes(scale.top_bytes)}; PyTorch can have {format_bytes(scale.device_bytes)}."
    return f"A full bar is {format_bytes(scale.top_bytes)}."


def draw_progress(share: float, words: str, width: int, appearance: Appearance) -> Line:
    """How much is replayed."""
    text = f" Replaying: {words} "
    bar = meter(share, max(4, min(30, width - len(text) - 6)), "accent", appearance.glyphs)
    return join([(fit(text, min(len(text), width - 10)), "dim"), *bar, (f" {share:4.0%}", "dim")])


Curve = Sequence[int]


def largest_in_columns(curve: array[int], count: int, width: int) -> Curve:
    """The largest value in each of `width` columns over `count` operations; fewer where memory ran out before."""
    columns: list[int] = []
    for place in range(width):
        first = place * count // width
        if first >= len(curve):
            break
        columns.append(max(curve[first : max(first + 1, (place + 1) * count // width)]))
    return columns


def draw_curves(
    one: Answer, other: Answer, counts: tuple[int, int], size: tuple[int, int], appearance: Appearance
) -> list[Line]:
    """Reserved memory over the trace in the first case and in the second; `counts` are their operations.

    Where both reserve the memory the area is full; what only one of them reserves has that one's shade.
    """
    width, height = size
    room, rows = max(1, width - AXIS_CELLS), max(1, height - 2)
    firsts = largest_in_columns(one.outcome.reserved_curve, counts[0], room)
    seconds = largest_in_columns(other.outcome.reserved_curve, counts[1], room)
    top = max([1, *firsts, *seconds])
    shades = ("#", "o", "x") if appearance.is_ascii else ("█", "░", "▓")
    lines = [_legend(one, other, shades, width)]
    for row in range(rows - 1, -1, -1):
        axis = format_bytes_short(top) if row == rows - 1 else "0" if row == 0 else ""
        cells = [
            _cell(_at(firsts, place), _at(seconds, place), (2 * row + 1) * top / (2 * rows), shades)
            for place in range(room)
        ]
        lines.append(join([(f"{axis:>{AXIS_CELLS - 1}} ", "dim"), *cells]))
    return [*lines, _ends(one, other, counts, width)]


def _at(curve: Curve, place: int) -> int:
    return curve[place] if place < len(curve) else 0


def _cell(first: int, second: int, level: float, shades: tuple[str, str, str]) -> Piece:
    """What a cell whose middle stands for `level` bytes shows."""
    if first >= level and second >= level:
        return (shades[0], "part-cached")
    if first >= level:
        return (shades[1], "good")
    return (shades[2], "poor") if second >= level else (" ", "plain")


def _legend(one: Answer, other: Answer, shades: tuple[str, str, str], width: int) -> Line:
    same = one is other or one.outcome.reserved_curve == other.outcome.reserved_curve
    if same:
        return ((fit(f" {shades[0]} reserved over the trace, {other.case.label}", width), "part-cached"),)
    pieces: list[Piece] = [
        (f" {shades[0]} both  ", "part-cached"),
        (f"{shades[1]} only {one.case.label}  ", "good"),
    ]
    return join([*pieces, (fit(f"{shades[2]} only {other.case.label}", max(1, width - width_of(pieces))), "poor")])


def _ends(one: Answer, other: Answer, counts: tuple[int, int], width: int) -> Line:
    """Below the curves: what the width stands for, and where memory runs out."""
    failed = [answer for answer in (one, other) if answer.outcome.is_out_of_memory]
    words = f"{max(counts):,} allocations and frees"
    if failed:
        outcome = failed[-1].outcome
        words += (
            f"; out of memory at event {outcome.failed_at:,},"
            f" which asks for {format_bytes(outcome.failed_request_bytes)}"
        )
    return ((fit(f"{'':{AXIS_CELLS}}{words}", width), "alarm" if failed else "dim"),)
