"""All attached processes, a line each; what differs much from the others' is marked."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from gputui.model.moment import DeviceMoment, TargetMoment
from gputui.model.reading import Absent, Reading
from gputui.ui.drawing.columns import Column
from gputui.ui.drawing.line import Piece
from gputui.units import format_bytes

ODD_SHARE = 0.1
"""A value is odd that lies so much of the median above or below it; below 64 MiB nothing is."""

ODD_BYTES = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class RankRow:
    """One process on one of its devices; `odd` are the columns in which it differs from the rest."""

    moment: TargetMoment
    device: DeviceMoment
    utilization_percent: Reading[int]
    odd: frozenset[str]


def values_of(device: DeviceMoment) -> dict[str, int]:
    """The figures of a rank that are compared, by column name."""
    counted = device.statistics
    stuck = device.layout.release.composition.stuck_bytes if device.layout else 0
    return {
        "reserved": counted.reserved_bytes,
        "allocated": counted.allocated_bytes,
        "peak": counted.peak_allocated_bytes,
        "stuck": stuck,
    }


def odd_columns(device: DeviceMoment, others: list[DeviceMoment]) -> frozenset[str]:
    """In which columns a device's figures differ from the median of all by more than `ODD_SHARE`."""
    if len(others) < 3:
        return frozenset()
    found = set()
    for name, value in values_of(device).items():
        middle = median(values_of(other)[name] for other in others)
        if abs(value - middle) > max(ODD_BYTES, ODD_SHARE * middle):
            found.add(name)
    return frozenset(found)


def _figure(name: str) -> Column[RankRow]:
    def text(row: RankRow) -> Piece:
        shown = format_bytes(values_of(row.device)[name])
        return (f"! {shown}", "poor") if name in row.odd else (shown, "plain")

    return Column(name, name.capitalize(), 11, text, align=">")


def _rank(row: RankRow) -> Piece:
    greeting = row.moment.greeting
    return ("-", "dim") if greeting.rank is None else (f"{greeting.rank}/{greeting.world_size}", "title")


def _utilization(row: RankRow) -> Piece:
    value = row.utilization_percent
    return ("-", "dim") if isinstance(value, Absent) else (f"{value}%", "good")


def _command(row: RankRow) -> Piece:
    words = f"(ended) {row.moment.greeting.command}" if row.moment.ended else row.moment.greeting.command
    return (words, "fair" if row.moment.ended else "plain")


COLUMNS: tuple[Column[RankRow], ...] = (
    Column("rank", "Rank", 6, _rank, align=">"),
    Column("pid", "PID", 8, lambda row: (str(row.moment.pid), "plain"), align=">"),
    Column("device", "GPU", 4, lambda row: (str(row.device.index), "title"), align=">"),
    _figure("reserved"),
    _figure("allocated"),
    _figure("peak"),
    _figure("stuck"),
    Column("utilization", "Use", 5, _utilization, align=">"),
    Column("command", "Command", 10, _command, grow=1),
)
