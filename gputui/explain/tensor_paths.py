"""From a tensor's name, in the forms that the probe gives, to its place in a tree."""

from __future__ import annotations

import re
from functools import lru_cache

Path = tuple[str, ...]
"""From the outside in: ("model", "layers", "0", "weight")."""

DEEPEST = 24
"""Deeper levels stay in one piece: a program can make names of any depth."""

_PLACE = re.compile(r"(?P<name>.*) \((?P<place>[^()]+:\d+ in [^()]+)\)")
_ARGUMENT = re.compile(r"(?P<argument>\w+) of (?P<operation>\w+)")
_LINE = re.compile(r":\d+ in ")
_PIECE = re.compile(r"\[(?P<index>-?\d+|'[^']*'|\"[^\"]*\")\]|\[(?P<owner>[^\[\]]+)\]|[^.\[ ]+(?: .*)?|\[.*")
_DIGITS = re.compile(r"(\d+)")


@lru_cache(1 << 17)
def path_of(name: str) -> Path:
    """The place of a tensor with this name; () for an empty name.

    Local variables are below their function ("train.py:23 in step"), optimizer states below the parameter in brackets,
    and what only the autograd graph holds below the operation that saved it.
    """
    argument = _ARGUMENT.fullmatch(name)
    if argument:
        return (argument["operation"], argument["argument"])
    placed = _PLACE.fullmatch(name)
    if placed:
        return (placed["place"], *_pieces(placed["name"]))
    return _pieces(name)


def key_of(piece: str) -> str:
    """What identifies a piece in the next look: the line that a function has reached does not count."""
    return _LINE.sub(" in ", piece) if " in " in piece else piece


def joined(first: str, second: str) -> str:
    """Two neighbouring pieces as Python writes them."""
    return first + second if second.startswith("[") else f"{first}.{second}"


@lru_cache(1 << 16)
def in_order(piece: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key in which numbers count as numbers: layers.2 before layers.10."""
    parts = enumerate(_DIGITS.split(piece))
    return tuple((0, int(part), "") if place % 2 else (1, 0, part.casefold()) for place, part in parts if part)


def _pieces(name: str) -> Path:
    if "[" not in name and " " not in name:
        return _shortened([piece for piece in name.split(".") if piece])
    pieces: list[str] = []
    for match in _PIECE.finditer(name):
        owner = match["owner"]
        pieces += [part for part in owner.split(".") if part] if owner else [match[0]]
    return _shortened(pieces)


def _shortened(pieces: list[str]) -> Path:
    if len(pieces) <= DEEPEST:
        return tuple(pieces)
    return (*pieces[: DEEPEST - 1], ".".join(pieces[DEEPEST - 1 :]))
