"""Plain ASCII for terminals that show nothing else; every character keeps its width in cells."""

from __future__ import annotations

from functools import lru_cache

from rich.cells import get_character_cell_size

STAND_INS = {
    character: plain
    for characters, plain in (
        ("─━╌┄═▔▁▂⎯", "-"),
        ("│┃╎┆║▏▎▍▊▌▐▕", "|"),
        ("╭╮╰╯┌┐└┘├┤┬┴┼╔╗╚╝", "+"),
        ("█▇▆▅▄▃▀▉▋", "#"),
        ("…", "~"),
        ("–—", "-"),
        ("←", "<"),
        ("→▶", ">"),
        ("↑▲", "^"),
        ("↓▼", "v"),
        ("↕", "|"),
        ("░▒▓·", "."),
        ("●•", "*"),
        ("×", "x"),
        ("’‘", "'"),
        ("“”", '"'),
        ("°\xa0", " "),
    )
    for character in characters
}
"""The ASCII character for each of these; any other character becomes "?"."""


@lru_cache(4096)
def as_ascii(text: str) -> str:
    """`text` in ASCII, as many cells wide."""
    if text.isascii():
        return text
    return "".join(
        character if character.isascii() else STAND_INS.get(character, "?" * get_character_cell_size(character))
        for character in text
    )
