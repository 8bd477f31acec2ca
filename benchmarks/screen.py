"""A terminal's screen as pyte draws it, to distinguish the answer to a key from all other changes."""

from __future__ import annotations

import re
from collections.abc import Collection

import pyte

_NOT_FOR_PYTE = re.compile(rb"\x1b\[[<=>][0-9;]*[A-Za-z]|\x1b\[\?[0-9;]*\$p|\x1b[P_^][^\x1b]*\x1b\\")
_REPEAT = re.compile(rb"(.)\x1b\[(\d+)b", re.DOTALL)

Style = tuple[str, str, bool, bool]


class Screen:
    """A screen of `columns` x `lines` that receives a program's output."""

    def __init__(self, columns: int, lines: int) -> None:
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)

    def feed(self, data: bytes) -> None:
        """Draw `data`."""
        data = _REPEAT.sub(lambda match: match[1] * (int(match[2]) + 1), _NOT_FOR_PYTE.sub(b"", data))
        self._stream.feed(data)

    @property
    def lines(self) -> list[str]:
        """The text of each line."""
        return list(self._screen.display)

    def styles_of(self, words: Collection[str]) -> tuple[tuple[int, str, Style], ...]:
        """The first of `words` in each line, with its style: it changes if the selection moves, not if figures do."""
        pattern = re.compile(rf"\b({'|'.join(map(re.escape, words))})\b")
        matches = []
        for number, text in enumerate(self._screen.display):
            if match := pattern.search(text):
                cell = self._screen.buffer[number][match.start()]
                matches.append((number, match[0], (cell.fg, cell.bg, cell.bold, cell.reverse)))
        return tuple(matches)
