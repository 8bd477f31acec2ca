"""A small terminal emulator that keeps the text, attributes and colours of each cell."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from rich.cells import get_character_cell_size

SEQUENCE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|(.)", re.DOTALL)
JUNK = "~"
MOVES = {"B": (0, 1), "C": (1, 0), "D": (-1, 0)}


@dataclass(frozen=True)
class Pen:
    """The attributes and colours that SGR has set."""

    attributes: frozenset[int] = frozenset()
    foreground: tuple[int, ...] = (39,)
    background: tuple[int, ...] = (49,)

    def change(self, codes: list[int]) -> Pen:
        """The pen after SGR with these parameters."""
        pen = self
        while codes:
            code, *codes = codes
            if code == 0:
                pen = Pen()
            elif code in (38, 48):
                size = {5: 2, 2: 4}[codes[0]]
                color, codes = (code, *codes[:size]), codes[size:]
                pen = replace(pen, **{"foreground" if code == 38 else "background": color})
            elif 30 <= code <= 39 or 90 <= code <= 97:
                pen = replace(pen, foreground=(code,))
            elif 40 <= code <= 49 or 100 <= code <= 107:
                pen = replace(pen, background=(code,))
            else:
                assert 1 <= code <= 9, f"SGR {code} is not expected"
                pen = replace(pen, attributes=pen.attributes | {code})
        return pen


@dataclass
class Terminal:
    """`width` by `height` cells, initially filled with `JUNK`; the second cell of a wide character is ""."""

    width: int
    height: int
    cells: list[list[tuple[str, Pen]]] = field(init=False)

    def __post_init__(self) -> None:
        self.x = self.y = 0
        self.pen = Pen()
        self.cells = [[(JUNK, Pen())] * self.width for _ in range(self.height)]

    def feed(self, data: str) -> None:
        """Interpret `data`; sequences that the monitor should never send fail the test."""
        for parameters, letter, character in SEQUENCE.findall(data):
            numbers = [int(number) for number in parameters.split(";")] if parameters else []
            if character == "\n":
                self.y += 1
            elif character in "\b\r" and character:
                assert 0 < self.x < self.width, "a step to the left from an edge"
                self.x = self.x - 1 if character == "\b" else 0
            elif character:
                self._write(character)
            elif letter == "H":
                row, column = (*numbers, 1, 1)[:2]
                self.x, self.y = column - 1, row - 1
            elif letter in MOVES:
                across, down = MOVES[letter]
                assert self.x < self.width, "moved by steps from the edge, where the cursor waits to wrap"
                self.x += across * (numbers or [1])[0]
                self.y += down * (numbers or [1])[0]
                assert 0 <= self.x < self.width, "moved out of the line"
                assert self.y < self.height, "moved out of the screen"
            else:
                assert letter == "m", f"CSI {parameters}{letter} is not expected"
                self.pen = self.pen.change(numbers or [0])

    def _write(self, character: str) -> None:
        size = get_character_cell_size(character)
        assert character.isprintable(), f"{character!r} is a control character"
        row = self.cells[self.y]
        if size == 0:
            before = self.x - 1 if row[self.x - 1][0] else self.x - 2
            row[before] = (row[before][0] + character, row[before][1])
            return
        assert self.x + size <= self.width, "written beyond the right edge"
        self._break(self.x)
        self._break(self.x + size)
        row[self.x] = (character, self.pen)
        row[self.x + 1 : self.x + size] = [("", self.pen)] * (size - 1)
        self.x += size

    def _break(self, x: int) -> None:
        """Blank both halves of a wide character when one of them is overwritten."""
        row = self.cells[self.y]
        if x < self.width and row[x][0] == "":
            row[x - 1], row[x] = (" ", row[x - 1][1]), (" ", row[x][1])

    @property
    def text(self) -> str:
        """The text of all cells, line by line."""
        return "\n".join("".join(character for character, _ in row) for row in self.cells)
