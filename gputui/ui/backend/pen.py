"""How runs of cells are written with few bytes: in which order, and by which moves and attributes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from rich.color import ColorSystem
from rich.style import Style

Cell = tuple[str, Style]
"""A character and its style; the cell behind a wide character holds an empty text."""

Look = tuple[str, str, str]
"""SGR parameters: attributes with the reset before them, foreground, background."""

RESET: Look = ("0", "39", "49")

NEAR_CELLS, NEAR_LINES = 6, 3
"""So far a run may stand from the one that is written before it, for the move there to take no more than 6 bytes."""

BACKSPACES = 3
"""So many of them take no more bytes than the sequence that moves the cursor to the left."""


class Run(NamedTuple):
    """Cells that stand beside each other in line `y` from column `x` on."""

    y: int
    x: int
    cells: list[Cell]

    @property
    def end(self) -> int:
        """The column behind the last cell."""
        return self.x + len(self.cells)


def in_columns(runs: Iterable[Run]) -> Iterable[Run]:
    """The runs, line after line, in another order: below each other where they have one look.

    Numbers change in the columns of a table. To the next line it is three bytes and a backspace or two; along the line
    it would be a leap to every column, and its colours, again on each line.
    """
    chains: list[list[Run]] = []
    by_style: dict[Style, list[list[Run]]] = {}
    for run in runs:
        style = run.cells[0][1]
        if all(cell[1] is style or cell[1] == style for cell in run.cells):
            known = by_style.setdefault(style, [])
            chain = next((chain for chain in known if _is_near(chain[-1], run)), None)
            if chain is not None:
                chain.append(run)
                continue
            known.append([run])
            chains.append(known[-1])
        else:
            chains.append([run])
    return (run for chain in chains for run in chain)


def _is_near(last: Run, run: Run) -> bool:
    return 0 < run.y - last.y <= NEAR_LINES and -NEAR_CELLS <= run.x - last.end <= NEAR_CELLS


class Pen:
    """Writes runs of cells: knows where the cursor is and which attributes are on."""

    def __init__(self, color_system: ColorSystem | None, width: int) -> None:
        self._color_system = color_system
        self._width = width
        self._parts: list[str] = []
        self._at: tuple[int, int] | None = None
        self._is_sure = True
        """Terminals do not agree on the width of all characters: only behind ASCII is another line reached by steps."""
        self._look = RESET

    def write(self, run: Run) -> None:
        """Go there and write it."""
        if self._at and self._at[0] != run.y and not self._is_sure:
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
        # At the edge the cursor waits to wrap, and where it goes from there terminals do not agree on.
        self._at = (run.y, run.end) if run.end < self._width else None
        self._is_sure = is_ascii

    def finish(self) -> str:
        """All that was written, the attributes reset."""
        if self._look != RESET:
            self._parts.append("\x1b[m")
        return "".join(self._parts)

    def _change_look(self, look: Look) -> None:
        if look != self._look:
            self._parts.append(change(self._look, look))
            self._look = look


def move(at: tuple[int, int] | None, y: int, x: int) -> str:
    """The shortest way from `at` (None: nobody knows where) to line `y`, column `x`."""
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
    """SGR from one look to another: a reset only where an attribute goes, and only the colours that change."""
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
    """The look of a style; no colours with None."""
    attributes = Style(
        bold=style.bold,
        dim=style.dim,
        italic=style.italic,
        underline=style.underline,
        blink=style.blink,
        reverse=style.reverse or (color_system is None and _has_background(style)),
        strike=style.strike,
    )
    codes = attributes._make_ansi_codes(color_system or ColorSystem.STANDARD)
    foreground: tuple[str, ...] = RESET[1:2]
    background: tuple[str, ...] = RESET[2:]
    if color_system and style.color:
        foreground = style.color.downgrade(color_system).get_ansi_codes()
    if color_system and style.bgcolor:
        background = style.bgcolor.downgrade(color_system).get_ansi_codes(foreground=False)
    return (f"0;{codes}" if codes else "0", ";".join(foreground), ";".join(background))


def _has_background(style: Style) -> bool:
    """What is marked by its background, as a cursor's line is, has to be marked without colours as well."""
    return style.bgcolor is not None and not style.bgcolor.is_default
