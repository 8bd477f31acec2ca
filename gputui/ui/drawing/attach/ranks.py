"""The Ranks screen: a line for every attached process; one that differs much from the rest is marked and explained."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from gputui.explain.ranks import behind
from gputui.explain.ranks.memory import FEWEST, Holders, Rank, figures, sentence, surplus
from gputui.model.attached.moment import TargetMoment
from gputui.model.machine.programs import program_of
from gputui.model.reading import Absent, Reading
from gputui.ui.drawing.columns import Column
from gputui.ui.drawing.line import Line, Piece, indented, paragraph
from gputui.units import format_bytes

SENTENCES = 3
"""At most this many odd ranks have a sentence above the list; all odd ranks are marked in it."""


@dataclass(frozen=True, slots=True)
class RankRow:
    """One process on one of its devices."""

    rank: Rank
    utilization_percent: Reading[int]
    keeps_others_waiting: bool = False


def rows_of(ranks: Sequence[Rank]) -> tuple[RankRow, ...]:
    """The rows of the table."""
    behind_pids = {found.moment.pid for found in behind.ranks_behind(_moments(ranks))}
    return tuple(
        RankRow(rank, rank.device.driver.utilization_percent, rank.moment.pid in behind_pids) for rank in ranks
    )


def draw_odd(ranks: Sequence[Rank], width: int, holders: Holders | None = None) -> list[Line]:
    """Which ranks keep others waiting, and which hold more or less memory than the rest, and what."""
    waits = [indented(words, width, " ! ", "poor") for words in behind.sentences(_moments(ranks))]
    return [*chain.from_iterable(waits), *_draw_memory(ranks, width, holders)]


def _moments(ranks: Sequence[Rank]) -> list[TargetMoment]:
    """The moment of each process, once even where the process has several devices."""
    return list({id(rank.moment): rank.moment for rank in ranks}.values())


def _draw_memory(ranks: Sequence[Rank], width: int, holders: Holders | None) -> list[Line]:
    """Which ranks hold more or less memory than the rest; nothing where there are too few to compare."""
    odd = sorted((rank for rank in ranks if rank.oddities), key=_largest, reverse=True)
    if len(ranks) < FEWEST:
        return []
    if not odd:
        return paragraph(f"All {len(ranks)} ranks hold about the same memory.", width, "dim")
    lines: list[Line] = []
    for rank in odd[:SENTENCES]:
        lines += indented(sentence(rank, len(ranks)), width, " ! ", "poor")
        for difference in surplus(rank, ranks, holders or {}):
            lines += indented(difference, width, "     ", "plain")
    more = len(odd) - SENTENCES
    return lines + (paragraph(f"  {more} more are marked below.", width, "dim") if more > 0 else [])


def _largest(rank: Rank) -> int:
    return max(abs(oddity.bytes - oddity.median_bytes) for oddity in rank.oddities)


def _figure(name: str) -> Column[RankRow]:
    def text(row: RankRow) -> Piece:
        value = figures(row.rank.device)[name]
        if isinstance(value, Absent):
            return ("-", "dim")
        shown = format_bytes(value)
        is_odd = any(oddity.name == name for oddity in row.rank.oddities)
        return (f"! {shown}", "poor") if is_odd else (shown, "plain")

    return Column(name, name.capitalize(), 11, text, align=">")


def _rank(row: RankRow) -> Piece:
    greeting = row.rank.moment.greeting
    return ("-", "dim") if greeting.rank is None else (f"{greeting.rank}/{greeting.world_size}", "title")


def _device(row: RankRow) -> Piece:
    """PyTorch's number, and NVML's where it is another: "0=1"."""
    index, gpu = row.rank.device.index, row.rank.device.driver.nvml_index
    return (f"{index}" if gpu in (None, index) else f"{index}={gpu}", "title")


def _utilization(row: RankRow) -> Piece:
    value = row.utilization_percent
    return ("-", "dim") if isinstance(value, Absent) else (f"{value}%", "good")


def _command(row: RankRow) -> Piece:
    program = program_of(row.rank.moment.greeting.command)
    return (f"(ended) {program}", "fair") if row.rank.moment.ended else (program, "plain")


def _launched(row: RankRow) -> Piece:
    """The collectives that a rank has launched in all its process groups."""
    groups = row.rank.moment.groups
    if not groups:
        return ("-", "dim")
    shown = f"{sum(group.launched for group in groups):,}"
    return (f"! {shown}", "poor") if row.keeps_others_waiting else (shown, "plain")


def _have_groups(rows: Iterable[RankRow]) -> bool:
    return any(row.rank.moment.groups for row in rows)


def _are_on_several(rows: Iterable[RankRow]) -> bool:
    return len({row.rank.moment.node for row in rows}) > 1


RANK_COLUMNS: tuple[Column[RankRow], ...] = (
    Column("rank", "Rank", 6, _rank, align=">"),
    Column("pid", "PID", 8, lambda row: (str(row.rank.moment.pid), "plain"), align=">"),
    Column("node", "Node", 12, lambda row: (row.rank.moment.node, "plain"), is_worth=_are_on_several),
    Column("device", "GPU", 4, _device, align=">"),
    _figure("reserved"),
    _figure("allocated"),
    _figure("peak"),
    _figure("stuck"),
    Column("collectives", "Collectives", 11, _launched, align=">", is_worth=_have_groups),
    Column("utilization", "Util", 5, _utilization, align=">"),
    Column("command", "Command", 10, _command, grow=1),
)
