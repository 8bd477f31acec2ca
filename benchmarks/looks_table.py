"""The table of `benchmarks.looks`: a row for each program, from the looks that its viewers got."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

NEAR_PEAK = 0.9
ENOUGH_LOOKS = 3
"""With fewer automatic looks that have tensors, the figures of a look are those of looks by key."""


@dataclass(frozen=True, slots=True)
class TakenLook:
    """A look: what asked for it ("attach", "change" for an automatic one, or "key"), its cost, and what it named.

    `named_bytes` and `allocated_bytes` count whole blocks on all devices.
    """

    asked: str
    pause_ms: float
    cpu_ms: float
    has_tensors: bool
    named_bytes: int
    allocated_bytes: int
    share_of_peak: float = 0.0
    """What was allocated at that moment, by PyTorch's peak."""
    problems: Sequence[str] = ()

    @property
    def named_share(self) -> float:
        """Named bytes by allocated bytes, 0 to 1."""
        return self.named_bytes / self.allocated_bytes if self.allocated_bytes else 0.0


@dataclass(frozen=True, slots=True)
class Watch:
    """The looks of a viewer: on attaching, automatic ones for `seconds`, then those by key, if it asked for any."""

    seconds: float
    looks: Sequence[TakenLook]


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one watch; those of a look (named share, stop, `look_cpu_ms`) are None without tensors in looks.

    `named_later` is the median of the second half of the looks. `is_by_key`: the figures come from looks by key.
    """

    named_median: float | None
    named_later: float | None
    named_lowest: float | None
    stop_median_ms: float | None
    stop_longest_ms: float | None
    looks_a_minute: float
    share_of_time: float
    look_cpu_ms: float | None
    attach_stop_ms: float | None
    is_by_key: bool
    near_peak_share: float = 0.0


HIGH = frozenset({"named_median", "named_later", "named_lowest", "looks_a_minute", "near_peak_share"})
"""The figures that are the better the higher they are."""


def figures_of(watch: Watch) -> Figures:
    """Rate and share count automatic looks only; the longest stop includes those without tensors."""
    automatic = [look for look in watch.looks if look.asked == "change"]
    with_tensors = [look for look in automatic if look.has_tensors]
    by_key = [look for look in watch.looks if look.asked == "key" and look.has_tensors]
    is_by_key = len(with_tensors) < ENOUGH_LOOKS and bool(by_key)
    measured = by_key if is_by_key else with_tensors
    shares = [look.named_share for look in measured]
    stops = [look.pause_ms for look in measured]
    return Figures(
        named_median=_median(shares),
        named_later=_median(shares[len(shares) // 2 :]),
        named_lowest=min(shares, default=None),
        stop_median_ms=_median(stops),
        stop_longest_ms=max(stops + [look.pause_ms for look in automatic], default=None),
        looks_a_minute=len(with_tensors) * 60 / watch.seconds,
        share_of_time=sum(max(look.pause_ms, look.cpu_ms) for look in automatic) / 1000 / watch.seconds,
        look_cpu_ms=_median([look.cpu_ms for look in measured]),
        attach_stop_ms=max((look.pause_ms for look in watch.looks if look.asked == "attach"), default=None),
        is_by_key=is_by_key,
        near_peak_share=sum(look.share_of_peak >= NEAR_PEAK for look in measured) / max(len(measured), 1),
    )


def worst_of(figures: Sequence[Figures]) -> Figures:
    """The worst of each figure: the lowest of what should be high, the highest of what the program pays."""
    worst = {field.name: _known(getattr(one, field.name) for one in figures) for field in fields(Figures)}
    return Figures(**{name: (min if name in HIGH else max)(values, default=None) for name, values in worst.items()})


def _known(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


@dataclass(frozen=True, slots=True)
class Column:
    """`cell` is the text of a watch's figures."""

    heading: str
    cell: Callable[[Figures], str]


COLUMNS = (
    Column("named, median (lowest), %", lambda f: _pair(f, _percent(f.named_median), _percent(f.named_lowest))),
    Column("named in the second half, %", lambda f: _percent(f.named_later) + _mark(f)),
    Column("stop, median (longest), ms", lambda f: _pair(f, _ms(f.stop_median_ms), _ms(f.stop_longest_ms))),
    Column("looks within a tenth of the peak", lambda f: f"{f.near_peak_share:.0%}"),
    Column("looks with tensors a minute", lambda f: f"{f.looks_a_minute:.0f}"),
    Column("share of time", lambda f: f"{f.share_of_time:.2%}"),
    Column("processor time of a look, ms", lambda f: _ms(f.look_cpu_ms) + _mark(f)),
    Column("stop on attaching, ms", lambda f: _ms(f.attach_stop_ms)),
)
RATIO = "ratio of processor time (of median stop)"
NOTE = f"* looks by key, because fewer than {ENOUGH_LOOKS} automatic looks had tensors"
NONE = "none"


def headings(*, is_compared: bool) -> list[str]:
    """The headings of `row`; the last is there if two commits are compared."""
    return ["program", *(column.heading for column in COLUMNS), *([RATIO] if is_compared else [])]


def row(name: str, figures: Sequence[Figures]) -> list[str]:
    """A program's cells: this commit's figures, then after a slash those of the earlier one, and the ratios."""
    cells = [" / ".join(column.cell(each) for each in figures) for column in COLUMNS]
    return [name, *cells, *([_ratios(*figures)] if len(figures) > 1 else [])]


def as_markdown(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first row has the headings."""
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    lines.insert(1, f"| --- |{' ---: |' * (len(rows[0]) - 1)}")
    return "\n".join(line.replace("*", "\\*") for line in lines)


def as_text(rows: Sequence[Sequence[str]]) -> str:
    """A table for a terminal; the first row has the headings."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            [cells[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))]
        )
        for cells in rows
    )


def _pair(figures: Figures, median: str, extreme: str) -> str:
    return f"{median} ({extreme}){_mark(figures)}"


def _mark(figures: Figures) -> str:
    return "*" if figures.is_by_key else ""


def _percent(share: float | None) -> str:
    """Rounded down, so that only a share of everything is 100 %."""
    return NONE if share is None else f"{math.floor(share * 1000) / 10:g}"


def _ms(milliseconds: float | None) -> str:
    return NONE if milliseconds is None else f"{milliseconds:.1f}"


def _ratios(now: Figures, before: Figures) -> str:
    return f"{_ratio(now.look_cpu_ms, before.look_cpu_ms)} ({_ratio(now.stop_median_ms, before.stop_median_ms)})"


def _ratio(now: float | None, before: float | None) -> str:
    return f"{now / before:.2f}" if now is not None and before else NONE
