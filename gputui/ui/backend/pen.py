"""Writes runs of cells with few bytes: chooses their order, the cursor's moves and the changes of attributes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from rich.color import ColorSystem
from rich.style import Style

Cell = tuple[str, Style]
"""A character and its style; the cell after a wide character holds an empty string."""

Look = tuple[str, str, str]
"""SGR parameters: attributes (preceded by a reset), foreground, background."""

RESET: Look = ("0", "39", "49")

ATTRIBUTE_CODES = ("1", "2", "3", "4", "5", "7", "9")
"""SGR of bold, dim, italic, underline, blink, reverse and strike."""

NEAR_CELLS, NEAR_LINES = 6, 3
"""How far a run may be from the one written before it: then the move takes at most 6 bytes."""

BACKSPACES = 3
"""Up to this many backspaces take no more bytes than the sequence that moves the cursor left."""


class ScreenRun(NamedTuple):
    """Adjacent cells in line `y`, from column `x`."""

    y: int
    x: int
    cells: list[Cell]

    @property
    def end(self) -> int:
        """The column after the last cell."""
        return self.x + len(self.cells)


def in_columns(runs: Iterable[ScreenRun]) -> Iterable[ScreenRun]:
    """The runs, ordered by line, reordered so that runs of one style below each other follow each other.

    Numbers change in the columns of a table. Moving to the next line takes three bytes and a backspace or two; going
    along the line would take a move to every column and a change of colour, again on each line.
    """
    chains: list[list[ScreenRun]] = []
    by_style: dict[Style, list[list[ScreenRun]]] = {}
    for run in runs:
        style = run.cells[0][1]
        if all(cell[1] is style or cell[1] == style for cell in run.cells):
            same_style = by_style.setdefault(style, [])
            chain = next((chain for chain in same_style if _is_near(chain[-1], run)), None)
            if chain is not None:
                chain.append(run)
                continue
            same_style.append([run])
            chains.append(same_style[-1])
        else:
            chains.append([run])
    return (run for chain in chains for run in chain)


def _is_near(last: ScreenRun, run: ScreenRun) -> bool:
    return 0 < run.y - last.y <= NEAR_LINES and -NEAR_CELLS <= run.x - last.end <= NEAR_CELLS


class Pen:
    """Writes runs of cells, and keeps track of the cursor and of the attributes that are set."""

    def __init__(self, color_system: ColorSystem | None, width: int) -> None:
        self._color_system = color_system
        self._width = width
        self._parts: list[str] = []
        self._at: tuple[int, int] | None = None
        self._is_column_certain = True
        """Whether the cursor's column is certain: terminals disagree on the width of characters that are not ASCII."""
        self._look = RESET

    def write(self, run: ScreenRun) -> None:
        """Move to a run and write it."""
        if self._at and self._at[0] != run.y and not self._is_column_certain:
            self._at = None
        self._parts.append(move(self._at, run.y, run.x))
        style: Style | None = None
        is_ascii = True
        for text, cell_style in run.cells:
            if cell_style is not style:
                style = cell_style
                self._change_look(look_of(style, self._color_system))
            self._parts.append(text)
            is_ascii = is_ascii and text.isascii()
        # Past the last column terminals disagree on where the cursor is.
        self._at = (run.y, run.end) if run.end < self._width else None
        self._is_column_certain = is_ascii

    def finish(self) -> str:
        """Everything written so far, followed by a reset of the attributes."""
        if self._look != RESET:
            self._parts.append("\x1b[m")
        return "".join(self._parts)

    def _change_look(self, look: Look) -> None:
        if look != self._look:
            self._parts.append(change(self._look, look))
            self._look = look


def move(at: tuple[int, int] | None, y: int, x: int) -> str:
    """A short sequence that moves the cursor from `at` (None: unknown) to line `y`, column `x`."""
    absolute = f"\x1b[{y + 1};{x + 1}H" if x else f"\x1b[{y + 1}H" if y else "\x1b[H"
    if at is None or at[0] > y:
        return absolute
    relative = _sequence(y - at[0], "B") + _across(at[1], x)
    return relative if len(relative) < len(absolute) else absolute


def _across(at: int, x: int) -> str:
    if x >= at:
        return _sequence(x - at, "C")
    if not x:
        return "\r"
    return "\b" * (at - x) if at - x <= BACKSPACES else _sequence(at - x, "D")


def _sequence(count: int, letter: str) -> str:
    return "" if not count else f"\x1b[{letter}" if count == 1 else f"\x1b[{count}{letter}"


def change(old: Look, new: Look) -> str:
    """The SGR sequence from one look to another: a reset only to end an attribute, and only colours that change."""
    if new == RESET:
        return "\x1b[m"
    if new[0] == old[0]:
        codes = [code for code, before in zip(new[1:], old[1:], strict=True) if code != before]
    elif old[0] == RESET[0]:
        codes = [
            new[0].removeprefix("0;"),
            *(code for code, before in zip(new[1:], old[1:], strict=True) if code != before),
        ]
    else:
        codes = [new[0], *(code for code, plain in zip(new[1:], RESET[1:], strict=True) if code != plain)]
    return f"\x1b[{';'.join(codes)}m"


@lru_cache(4096)
def look_of(style: Style, color_system: ColorSystem | None) -> Look:
    """The look of a style, without colours where `color_system` is None."""
    is_reverse = style.reverse or (color_system is None and _has_background(style))
    attributes = (style.bold, style.dim, style.italic, style.underline, style.blink, is_reverse, style.strike)
    codes = ";".join(code for code, is_on in zip(ATTRIBUTE_CODES, attributes, strict=True) if is_on)
    foreground: tuple[str, ...] = RESET[1:2]
    background: tuple[str, ...] = RESET[2:]
    if color_system and style.color:
        foreground = style.color.downgrade(color_system).get_ansi_codes()
    if color_system and style.bgcolor:
        background = style.bgcolor.downgrade(color_system).get_ansi_codes(foreground=False)
    return (f"0;{codes}" if codes else "0", ";".join(foreground), ";".join(background))


def _has_background(style: Style) -> bool:
    """Whether a style sets a background, as a selected line does; without colours it is shown in reverse."""
    return style.bgcolor is not None and not style.bgcolor.is_default
