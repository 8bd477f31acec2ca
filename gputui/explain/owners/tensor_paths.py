"""From a tensor's name, in the forms that the probe gives, to its module and its place in a tree."""

from __future__ import annotations

import re
from functools import lru_cache

from gputui.explain.owners.labels import label_of
from gputui.model.attached.analysis import Owner
from gputui.model.attached.tensors import OF_MODELS, Category

Path = tuple[str, ...]
"""From the outside in: ("model", "layers", "0", "weight")."""

DEEPEST = 24
"""Deeper levels stay in one piece: a program can make names of any depth."""

_LINES = r":\d+(?:, \d+)*"
_PLACE = re.compile(rf"(?P<name>.*) \((?P<place>[^()]+{_LINES} in [^()]+)\)")
_ASSIGNED = re.compile(rf"(?P<name>\w+) \([^()]+{_LINES}\)")
"""A global variable with the lines that assign it: one piece."""
_ARGUMENT = re.compile(r"(?P<argument>\w+) of (?P<operation>\w+)")
_LINE = re.compile(rf"{_LINES} in ")
_PIECE = re.compile(r"\[(?P<index>-?\d+|'[^']*'|\"[^\"]*\")\]|\[(?P<owner>[^\[\]]+)\]|[^.\[ ]+(?: .*)?|\[.*")
_DIGITS = re.compile(r"(\d+)")
_MEMBER = re.compile(r"(?P<module>.+)\.[^.\[\]' ]+")


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
    if _ASSIGNED.fullmatch(name):
        return (name,)
    return _pieces(name)


def place_of(owner: Owner) -> Path:
    """The place of a tensor; an activation whose module is known stands below it, under the operation that saved it.

    A block of which only the line that allocated it is known stands below that line.
    """
    if owner.category is Category.UNATTRIBUTED:
        return (owner.name,) if owner.name else ()
    path = path_of(owner.name)
    if owner.category is not Category.ACTIVATION or not owner.module:
        return path
    module = path_of(owner.module)
    if path[: len(module)] == module:
        return path
    leaf = path if _ARGUMENT.fullmatch(owner.name) else filter(None, (owner.saved_by, owner.name))
    return _shortened([*module, *leaf])


def module_of(owner: Owner) -> str:
    """The path of the module that a tensor belongs to, "" where none is known.

    Where the probe does not say, it follows from the name: "model.fc" for the parameter "model.fc.weight", its gradient
    "model.fc.weight.grad" and its state "optimizer.state[model.fc.weight].exp_avg".
    """
    if owner.module or owner.category not in OF_MODELS:
        return owner.module
    label = label_of(owner.name)
    name = label.path
    if owner.category is Category.GRADIENT:
        name = name.removesuffix(".grad")
    if owner.category is Category.OPTIMIZER_STATE:
        name = label_of(label.state.parameter).path if label.state.slot else ""
    member = _MEMBER.fullmatch(name)
    return member["module"] if member else ""


def key_of(piece: str) -> str:
    """What identifies a piece in the next look: the line that a function has reached does not count."""
    assigned = _ASSIGNED.fullmatch(piece)
    if assigned:
        return assigned["name"]
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
