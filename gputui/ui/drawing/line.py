"""Lines as pieces of text, each with a role in place of colours, and such lines as printed text. Needs no Textual."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from rich.cells import cell_len, chop_cells, get_character_cell_size, set_cell_size

Piece = tuple[str, str]
"""Text, and the role that decides how it looks (`gputui.ui.drawing.roles`)."""

Line = tuple[Piece, ...]


MARKS_AT_MOST = 4
"""How many combining characters a cell holds: without a bound, a name full of them sends kilobytes for one cell."""


@lru_cache(4096)
def printable(text: str) -> str:
    """`text` without control and format characters, which a terminal would obey or misplace: they become "?"."""
    if text.isascii() and text.isprintable():
        return text
    characters, marks = [], 0
    for raw in text:
        character = raw if raw.isprintable() else "?"
        marks = 0 if get_character_cell_size(character) else marks + 1
        if marks <= MARKS_AT_MOST:
            characters.append(character)
    return "".join(characters)


@lru_cache(8192)
def fit(text: str, width: int, align: str = "<", ellipsis: str = "…") -> str:
    """`text` in exactly `width` cells: cut, or padded according to `align` ("<", ">", "^")."""
    text = printable(text)
    length = len(text) if text.isascii() else cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + ellipsis if width > 1 else set_cell_size(text, width)
    space = width - length
    if align == ">":
        return " " * space + text
    if align == "^":
        return " " * (space // 2) + text + " " * (space - space // 2)
    return text + " " * space


def fit_clauses(text: str, width: int) -> str:
    """As much of a sentence as fits `width` cells, up to a comma; as it is where not even its first clause fits."""
    shown = printable(text)
    while cell_len(shown) > width:
        shown, comma, _ = shown.rpartition(", ")
        if not comma:
            return text
    return shown


def width_of(line: Iterable[Piece]) -> int:
    """How many cells a line takes."""
    return sum(len(text) if text.isascii() else cell_len(text) for text, _ in line)


def join(pieces: Iterable[Piece]) -> Line:
    """The pieces as a line: neighbours of the same role joined, empty pieces dropped."""
    joined: list[Piece] = []
    last = ""
    for piece in pieces:
        text, role = piece
        if role == last and text:
            joined[-1] = (joined[-1][0] + text, role)
        elif text:
            joined.append(piece)
            last = role
    return tuple(joined)


def text_of(lines: Iterable[Line]) -> str:
    """The text without roles, trailing spaces stripped."""
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)


def spread(left: Iterable[Piece], right: Iterable[Piece], width: int) -> Line:
    """`left` and `right` at the two ends of a line; where both do not fit, `left` alone."""
    left, right = tuple(left), tuple(right)
    space = width - width_of(left) - width_of(right)
    if space < 1:
        return join(left)
    return join((*left, (" " * space, "plain"), *right))


def fill_lines(groups: Iterable[Sequence[Piece]], width: int) -> list[Line]:
    """The groups one after the other, in as many lines as it takes to cut none that fits into a line."""
    lines: list[list[Piece]] = [[]]
    for group in groups:
        if lines[-1] and width_of(lines[-1]) + width_of(group) > width:
            lines.append([])
        lines[-1] += group
    return [fit_line(line, width) for line in lines]


def fit_line(pieces: Sequence[Piece], width: int) -> Line:
    """The pieces, cut to `width` cells."""
    kept: list[Piece] = []
    left = width
    for text, role in pieces:
        shown = printable(text)
        cells = cell_len(shown)
        kept.append((shown if cells <= left else set_cell_size(shown, left), role))
        left -= cells
        if left <= 0:
            break
    return join(kept)


def with_mark(line: Line, place: int, mark: str, role: str) -> Line:
    """The line with another character in one cell; every character of it takes one."""
    pieces: list[Piece] = []
    start = 0
    for text, own_role in line:
        inside = place - start
        start += len(text)
        if 0 <= inside < len(text):
            pieces += [(text[:inside], own_role), (mark, role), (text[inside + 1 :], own_role)]
        else:
            pieces.append((text, own_role))
    return join(pieces)


def wrap(text: str, width: int, role: str = "plain") -> list[Line]:
    """`text` broken between words into lines of at most `width` cells; a longer word is broken wherever it must be."""
    lines: list[str] = []
    for word in printable(text).split(" "):
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines += chop_cells(word, width) if cell_len(word) > width else [word]
    return [((line, role),) for line in lines]


def paragraph(text: str, width: int, role: str = "plain") -> list[Line]:
    """`text` wrapped, with a margin of one cell."""
    return [join(((" ", role), *line)) for line in wrap(text, max(1, width - 1), role)]


def indented(text: str, width: int, lead: str, role: str) -> list[Line]:
    """`text` wrapped behind `lead`; further lines are indented as far."""
    lines = wrap(text, max(10, width - len(lead) - 1), role)
    leads = [lead, *[" " * len(lead)] * (len(lines) - 1)]
    return [join(((before, role), *line)) for before, line in zip(leads, lines, strict=True)]


SGR = {
    "dim": "2",
    "title": "1;36",
    "head": "1;4",
    "good": "32",
    "fair": "33",
    "poor": "1;31",
    "alarm": "1;7;31",
    "track": "2",
    "accent": "36",
}
"""Roles in the terminal's own colours, as in the theme "terminal"."""


def as_text(line: Line, *, is_colored: bool) -> str:
    """A line as printed text: with colours, or without colours and spaces at its end."""
    if not is_colored:
        return text_of((line,))
    return "".join(f"\x1b[{SGR[role]}m{text}\x1b[m" if role in SGR else text for text, role in line)
