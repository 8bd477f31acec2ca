"""The Step screen: a graph of allocated memory over the events, its phases and peak, and a table of who is alive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from gputui.explain.step.kinds import KINDS, Kind
from gputui.explain.step.layers import Column, column_at
from gputui.explain.step.phases import Phase
from gputui.explain.step.step import Grouping, Holders, Step
from gputui.ui.drawing.appearance import Appearance
from gputui.ui.drawing.line import Line, Piece, fit, join, width_of, with_mark
from gputui.units import format_bytes

LETTERS = {
    Kind.PARAMETER: "P",
    Kind.BUFFER: "B",
    Kind.OPTIMIZER_STATE: "O",
    Kind.GRADIENT: "G",
    Kind.ACTIVATION: "A",
    Kind.TEMPORARY: "T",
    Kind.OTHER: "X",
}
LETTERED_FROM_CELLS = 6
"""A layer has its letter where a line of the graph shows it in this many cells in a row."""
RESERVED = ("reserved", "part-cached")
PHASE_ROLES = {Phase.FORWARD: "good", Phase.BACKWARD: "fair", Phase.OPTIMIZER: "accent", Phase.UNKNOWN: "dim"}


def role_of(kind: Kind) -> str:
    """The role of a kind; temporaries have the look of the other parts that come and go."""
    return "part-pending" if kind is Kind.TEMPORARY else f"part-{kind.value}"


def draw_graph(
    step: Step, columns: Sequence[Column], cursor: int, size: tuple[int, int], appearance: Appearance
) -> list[Line]:
    """The layers in a graph of this width and height, then the phases and a line with the peak and the cursor."""
    width, height = size
    repeat = max(1, width // max(1, len(columns)))
    top = max([1, *(max(column.reserved, sum(column.layers)) for column in columns)])
    at, peak = column_at(columns, cursor) * repeat, column_at(columns, step.peak) * repeat
    columns = [column for column in columns for _ in range(repeat)]
    lines = []
    for row in range(height - 1, -1, -1):
        cells = [_cell(column, row, height, top, appearance) for column in columns]
        lines.append(_lettered(cells, at, appearance))
    return [*lines, _phases(step, columns, appearance), _marks(len(columns), at, peak, appearance)]


Cell = tuple[str, str, str]
"""A character, its role, and the letter that may stand in its place."""


def _cell(column: Column, row: int, height: int, top: int, appearance: Appearance) -> Cell:
    """A cell of the graph: how much of it is covered, in the look of the kind that takes most of it."""
    low, high = top * row // height, top * (row + 1) // height
    best, most, covered, below = Kind.OTHER, 0, 0, 0
    for kind, size_bytes in zip(KINDS, column.layers, strict=True):
        share = min(high, below + size_bytes) - max(low, below)
        below += size_bytes
        if share > 0:
            covered += share
            if share > most:
                best, most = kind, share
    steps = len(appearance.glyphs.rises) - 1
    level = round(steps * covered / max(1, high - low))
    if level:
        glyph = LETTERS[best] if appearance.is_ascii else appearance.glyphs.rises[level]
        return glyph, role_of(best), LETTERS[best] if level == steps else ""
    if low < column.reserved <= high:
        return ("-" if appearance.is_ascii else "▔"), RESERVED[1], ""
    return " ", "plain", ""


def _lettered(cells: list[Cell], cursor: int, appearance: Appearance) -> Line:
    """A line of the graph; long runs of a layer begin with its letter, and the cursor is a line through all."""
    pieces: list[Piece] = []
    for (role, letter), run in groupby(cells, key=lambda cell: (cell[1], cell[2])):
        text = "".join(glyph for glyph, _, _ in run)
        pieces.append((letter + text[1:] if letter and len(text) >= LETTERED_FROM_CELLS else text, role))
    return with_mark(join(pieces), cursor, "|" if appearance.is_ascii else "│", "cursor")


def _phases(step: Step, columns: Sequence[Column], appearance: Appearance) -> Line:
    rule = appearance.glyphs.rule
    phases = [step.phase_at(column.first) for column in columns]
    pieces: list[Piece] = []
    for phase, run in groupby(phases):
        cells = len(list(run))
        name = "" if phase is Phase.UNKNOWN else phase.value
        text = f"{name[: cells - 1]}{rule * (cells - 1 - len(name[: cells - 1]))} " if cells > 1 else rule
        pieces.append((text, PHASE_ROLES[phase]))
    return join(pieces)


def _marks(width: int, cursor: int, peak: int, appearance: Appearance) -> Line:
    """Where the peak and the cursor are."""
    label = f"{appearance.glyphs.up} peak"
    start = peak if peak + len(label) <= width else max(0, peak - len(label) + 1)
    label = label if start == peak else f"peak {appearance.glyphs.up}"
    rest = " " * max(0, width - start - len(label))
    line = join(((" " * start, "plain"), (label, "alarm"), (rest, "plain")))
    is_covered = start <= cursor < start + len(label)
    return line if is_covered else with_mark(line, cursor, appearance.glyphs.up, "cursor")


def draw_legend(step: Step, columns: Sequence[Column], event: int, width: int, appearance: Appearance) -> Line:
    """The layers of the graph with their bytes at an event, and what is reserved; what does not fit is left out."""
    held = step.bytes_by_kind(event)
    shown = [kind for place, kind in enumerate(KINDS) if any(column.layers[place] for column in columns)]
    dash = "-" if appearance.is_ascii else "▔"
    reserved = f" reserved {format_bytes(step.timeline.reserved[event])} "
    entries: list[list[Piece]] = [
        [(f" {LETTERS[kind]}{'' if appearance.is_ascii else '█'}", role_of(kind)), (_amount(kind, held), "plain")]
        for kind in shown
    ]
    pieces: list[Piece] = []
    for entry in [*entries, [(f" {dash}", RESERVED[1]), (reserved, "plain")]]:
        if width_of([*pieces, *entry]) <= width:
            pieces += entry
    return join(pieces)


def _amount(kind: Kind, held: Mapping[Kind, int]) -> str:
    return f" {kind.words} {format_bytes(held.get(kind, 0))} "


def draw_cursor(step: Step, event: int, width: int) -> Line:
    """What the event under the cursor is: its number, phase, what it allocates or frees, and the sum."""
    timeline = step.timeline
    block = timeline.blocks[event]
    what = timeline.trace.action_name(event).replace("_", " ")
    if block >= 0:
        verb = "allocates" if timeline.births[block] == event else "frees"
        what = f"{verb} {format_bytes(timeline.sizes_bytes[block])}, {step.kind_of(block).value.replace('_', ' ')}"
    number = f" event {event - step.first + 1:,}"
    phase = step.phase_at(event)
    name = f", {step.name_of(block)}" if block >= 0 else ""
    pieces: list[Piece] = [
        (number, "title"),
        (f" {phase.value}" if phase is not Phase.UNKNOWN else "", PHASE_ROLES[phase]),
        (f"  {format_bytes(timeline.allocated[event])} allocated  ", "accent"),
    ]
    return join([*pieces, (fit(f"{what}{name}", max(1, width - width_of(pieces))), "plain")])


TITLES = {
    Grouping.LINE: "line that allocated it",
    Grouping.MODULE: "module",
    Grouping.SIZE: "each block, by size",
    Grouping.KIND: "kind",
}
SPAN_CELLS = 15


def draw_holders(step: Step, holders: Sequence[Holders], grouping: Grouping, total: int, width: int) -> list[Line]:
    """A head and a line for each group; `total` is what is allocated."""
    name_cells = max(8, width - 9 - 7 - 17 - 8 - SPAN_CELLS - 1)
    span = fit("came - goes", SPAN_CELLS, ">")
    head = f"{'bytes':>9}{'share':>7}  {'kind':<15}{'blocks':>8} {fit(TITLES[grouping], name_cells)}{span}"
    lines: list[Line] = [((fit(head, width), "head"),)]
    for group in holders:
        share = f"{100 * group.bytes / total:5.1f}%" if total else ""
        lines.append(
            join(
                (
                    (f"{format_bytes(group.bytes):>9}{share:>7}  ", "plain"),
                    (fit(group.kind.value.replace("_", " "), 15), role_of(group.kind)),
                    (f"{group.count:>8,} ", "dim"),
                    (fit(group.name or "-", name_cells), "plain"),
                    (fit(step.span_words(group), SPAN_CELLS, ">"), "dim"),
                )
            )
        )
    return lines
