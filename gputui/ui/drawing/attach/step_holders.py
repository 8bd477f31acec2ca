"""What is alive at an event of a step, as a table: bytes, kind, count, name, when it came and when it goes."""

from __future__ import annotations

from collections.abc import Sequence

from gputui.explain.step.step import Grouping, Holders, Step
from gputui.ui.drawing.attach.step import role_of
from gputui.ui.drawing.line import Line, fit, join
from gputui.units import format_bytes

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
