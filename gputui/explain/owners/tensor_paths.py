"""From a tensor's owner to its module, and to its place in the tree of tensors."""

from __future__ import annotations

import re
from functools import lru_cache

from gputui.model.attached.analysis import Owner
from gputui.model.attached.owners import OwnerKind, OwnerName
from gputui.model.attached.tensors import OF_MODELS, Category

Path = tuple[str, ...]
"""A place in the tree, from the outside in: ("model", "layers", "0", "weight")."""

DEEPEST = 24
"""Deeper levels are one piece together: a program can make names of any depth."""

_PATHS = (OwnerKind.VARIABLE, OwnerKind.PARAM_GROUP, OwnerKind.COPY)
"""The kinds of names that are paths in Python; all other names are words."""
_PIECE = re.compile(r"\[(?P<index>-?\d+|'[^']*'|\"[^\"]*\")\]|\[(?P<owner>[^\[\]]+)\]|[^.\[ ]+(?: .*)?|\[.*")
_DIGITS = re.compile(r"(\d+)")
_MEMBER = re.compile(r"(?P<module>.+)\.[^.\[\]' ]+")


class Words(str):
    """A piece of a place that is no step of a path in Python.

    `key` identifies the piece in the next look, when a text with line numbers may name other lines.
    """

    __slots__ = ("key",)

    key: str

    def __new__(cls, text: str, key: str = "") -> Words:
        piece = super().__new__(cls, text)
        piece.key = key or text
        return piece


@lru_cache(1 << 17)
def path_of(name: OwnerName) -> Path:
    """The place of a tensor with this name; () for an empty name.

    Local variables stand below their function ("train.py:23 in step"), optimizer states below optimizer and parameter,
    and what only the autograd graph holds below the operation that saved it.
    """
    if name.kind is OwnerKind.ARGUMENT:
        return (name.of, name.start)
    if name.kind is OwnerKind.STATE:
        return _shortened([*pieces(name.start), "state", *pieces(name.of), *pieces(name.part)])
    if name.kind not in _PATHS:
        return (Words(name),)
    file, function = name.function
    steps = pieces(name.path)
    if function:
        return (Words(name.where, ", ".join(filter(None, (name.exception, f"{file} in {function}")))), *steps)
    if not name.where or not steps:
        return steps
    last = f"{steps[-1]} ({name.where})"
    return (*steps[:-1], Words(last, steps[-1] if name.place else last))


def place_of(owner: Owner) -> Path:
    """The place of a tensor. An activation stands below its module, if that is known, and the operation that saved it.

    A block of which only the allocating line is known stands below that line.
    """
    if owner.category is Category.UNATTRIBUTED:
        return (Words(owner.name),) if owner.name else ()
    path = path_of(owner.name)
    if owner.category is not Category.ACTIVATION or not owner.module:
        return path
    module = pieces(owner.module)
    if path[: len(module)] == module:
        return path
    leaf = path if owner.name.kind is OwnerKind.ARGUMENT else filter(None, (owner.saved_by, owner.name))
    return _shortened([*module, *leaf])


def module_of(owner: Owner) -> str:
    """The path of the module that a tensor belongs to, "" where none is known.

    If the probe does not say which, the name does: "model.fc" for the parameter "model.fc.weight", its gradient
    "model.fc.weight.grad" and its state "optimizer.state[model.fc.weight].exp_avg".
    """
    if owner.module or owner.category not in OF_MODELS:
        return owner.module
    name = owner.name.start
    if owner.category is Category.GRADIENT:
        name = name.removesuffix(".grad")
    if owner.category is Category.OPTIMIZER_STATE:
        name = owner.name.of
    member = _MEMBER.fullmatch(name)
    return member["module"] if member else ""


def key_of(piece: str) -> str:
    """The text that identifies a piece in the next look."""
    return piece.key if isinstance(piece, Words) else piece


def joined(first: str, second: str) -> str:
    """Two neighbouring pieces, joined as in Python."""
    return first + second if second.startswith("[") else f"{first}.{second}"


@lru_cache(1 << 16)
def in_order(piece: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key in which numbers count as numbers: layers.2 before layers.10."""
    parts = enumerate(_DIGITS.split(piece))
    return tuple((0, int(part), "") if place % 2 else (1, 0, part.casefold()) for place, part in parts if part)


def pieces(name: str) -> Path:
    """The steps of a path in Python."""
    if "[" not in name and " " not in name:
        return _shortened([piece for piece in name.split(".") if piece])
    found: list[str] = []
    for match in _PIECE.finditer(name):
        owner = match["owner"]
        found += [part for part in owner.split(".") if part] if owner else [match[0]]
    return _shortened(found)


def _shortened(pieces: list[str]) -> Path:
    if len(pieces) <= DEEPEST:
        return tuple(pieces)
    return (*pieces[: DEEPEST - 1], ".".join(pieces[DEEPEST - 1 :]))
