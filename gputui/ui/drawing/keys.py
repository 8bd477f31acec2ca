"""The line of keys with their words: as many as fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gputui.ui.drawing.line import Line, Piece, fit, join, width_of


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A key as it is shown, its word, and the key that a click on it presses ("": none).

    Neighbours of the same `group` may be shown as one entry with that name. Entries that are kept are dropped last.
    """

    shown: str
    words: str
    key: str
    group: str = ""
    is_kept: bool = False


SHORT_RUN = 2
"""Up to this many successive keys are shown one by one."""

KeySpan = tuple[int, int, str]
"""First cell, the cell after the last, and the key that a click between them presses."""


def draw_keys(entries: Sequence[KeyEntry], width: int) -> tuple[Line, list[KeySpan]]:
    """One line of `width` cells, no word cut; to fit, groups become one entry, then the last entries are dropped."""
    chosen = list(entries)
    if _width(chosen) > width:
        chosen = _grouped(chosen)
    while len(chosen) > 1 and _width(chosen) > width:
        last = next((entry for entry in reversed(chosen) if not entry.is_kept), chosen[-1])
        chosen.remove(last)
    pieces: list[Piece] = []
    spans: list[KeySpan] = []
    for entry in chosen:
        start = width_of(pieces)
        if start + width_of(_pieces(entry)) > width:
            break
        pieces += _pieces(entry)
        spans.append((start, width_of(pieces), entry.key))
    return join((*pieces, (fit("", width - width_of(pieces)), "plain"))), spans


def _pieces(entry: KeyEntry) -> list[Piece]:
    return [(f" {entry.shown}", "key"), (f" {entry.words} ", "dim")]


def _width(entries: Sequence[KeyEntry]) -> int:
    return sum(width_of(_pieces(entry)) for entry in entries)


def _grouped(entries: Sequence[KeyEntry]) -> list[KeyEntry]:
    """The same entries, but a group is one entry, where its first member was: 1-6 Screens."""
    members: dict[str, list[KeyEntry]] = {}
    for entry in entries:
        members.setdefault(entry.group, []).append(entry)
    grouped: list[KeyEntry] = []
    for entry in entries:
        group = members[entry.group]
        if not entry.group or len(group) == 1:
            grouped.append(entry)
        elif entry is group[0]:
            grouped.append(KeyEntry(_span([member.shown for member in group]), entry.group, ""))
    return grouped


def _span(keys: Sequence[str]) -> str:
    """`1-8`, and `1-4,7,8` where some are missing between them."""
    if not all(map(str.isdecimal, keys)):
        return f"{keys[0]}-{keys[-1]}"
    runs: list[list[str]] = []
    for key in keys:
        if runs and int(key) == int(runs[-1][-1]) + 1:
            runs[-1].append(key)
        else:
            runs.append([key])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > SHORT_RUN else ",".join(run) for run in runs)
