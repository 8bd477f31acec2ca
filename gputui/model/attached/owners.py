"""Whose a storage is: what the probe has found, as a value that writes itself as text. Nothing takes the text apart."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple


class OwnerKind(str, Enum):
    """What the words of an owner's name stand for."""

    VARIABLE = ""
    STATE = "state"
    """Of an optimizer, for one parameter."""
    PARAM_GROUP = "param_group"
    """Of an optimizer, for a group of parameters."""
    ARGUMENT = "argument"
    """Of an operation that has saved it for its backward pass."""
    RESULT = "result"
    """Of an operation; no variable leads to it."""
    COPY = "copy"
    """Of a parameter, with another element type."""
    UNNAMED = "unnamed"
    """A tensor to which no variable leads, after its class."""
    CYCLE = "cycle"
    """Objects that refer to each other, and to which nothing else does."""
    LINE = "line"
    """The line that allocated it is all that is known."""
    WORDS = "words"
    """A sentence of the probe's."""


_TEXTS = {
    OwnerKind.STATE: "{path}.state[{of}]{part}",
    OwnerKind.ARGUMENT: "{path} of {of}",
    OwnerKind.RESULT: "result of {path}{part}",
    OwnerKind.UNNAMED: "unnamed {path}{part}",
    OwnerKind.CYCLE: "A cycle of {path}",
}
"""Without the place; the others are `{path}{part}`."""
EXCEPTIONS = {
    "held": "exception {holder}",
    "of_cell": "exception of {holder}",
    "last": "last exception",
    "lost": "lost exception",
    "handled": "exception being handled",
}
"""The exception that keeps a local variable: `holder` is the variable that holds it, or the cell that raised it."""
HELD = "held"

# Paths are Python's own notation: `self.models[0].fc.weight`.
_VARIABLE = re.compile(r"(?:self\.)?\w+")
_ROOT = re.compile(r"(?:self\.)?\w+(?:\[[^\]]*\])?")
_ENTRY = re.compile(r"(?P<collection>.+)\[(?P<key>[^\[\]]*)\]")
_PAIR = re.compile(r"(?<=\d\])\[[01]\]$")
_OUTPUT = re.compile(r"(?P<name>Out\[(?P<cell>\d+)\]|_+\d*)")
_SLOT = re.compile(r"\.(\w+)")
_FUNCTION = re.compile(r"(?P<file>[^:]+):\d+(?:, \d+)* in (?P<name>.+)")


class State(NamedTuple):
    """`opt.state[model.fc.weight].exp_avg`: the optimizer, the parameter and the name of the state; "" if not said."""

    optimizer: str = ""
    parameter: str = ""
    slot: str = ""


class OwnerName(str):
    """`losses[3] (train.py:23 in step)`: the name of an owner, as text, with the facts that it was written from.

    `path` is the text without what stands in brackets, and `start` the first of the facts: the variable with the steps
    from it to the tensor, or what else the kind says. `place` is the line of the variable, or those that assign it.
    """

    __slots__ = ("exception", "facts", "holder", "kind", "of", "part", "path", "place", "start", "where")

    exception: str
    """What keeps a local variable alive, in words: "exception errors[3]", "last exception"; else ""."""
    facts: tuple[str, ...]
    """All that it was made from."""
    holder: str
    """The variable that holds this exception, `errors[3]`; else ""."""
    kind: OwnerKind
    of: str
    part: str
    path: str
    place: str
    start: str
    where: str
    """What stands in brackets behind the path."""

    def __new__(
        cls,
        start: str = "",
        place: str = "",
        kind: str = "",
        of: str = "",
        part: str = "",
        exception: str = "",
        holder: str = "",
    ) -> OwnerName:
        of_kind = OwnerKind(kind)
        path = _TEXTS[of_kind].format(path=start, of=of, part=part) if of_kind in _TEXTS else start + part
        words = EXCEPTIONS[exception].format(holder=holder) if exception else ""
        where = ", ".join(filter(None, (words, place))) if words else place
        where = f"{of} copy" if of_kind is OwnerKind.COPY else where
        name = super().__new__(cls, f"{path} ({where})" if where else path)
        name.facts = start, place, of_kind.value, of, part, exception, holder
        name.start, name.path, name.place, name.kind = start, path, place, of_kind
        name.of, name.part, name.where = of, part, where
        name.exception, name.holder = words, holder if exception == HELD else ""
        return name

    def without_exception(self) -> OwnerName:
        """The same, if no exception keeps it."""
        return OwnerName(*self.facts[:5])

    @property
    def function(self) -> tuple[str, str]:
        """The file and the function of a local variable: ("train.py", "step"); ("", "") for other variables."""
        found = _FUNCTION.fullmatch(self.place)
        return (found["file"], found["name"]) if found else ("", "")

    @property
    def root(self) -> str:
        """The variable of a model in the path of one of its parameters: `model`, `self.model`, `models[0]`."""
        return root_of(self.start)

    @property
    def state(self) -> State:
        """What is known of an optimizer's state."""
        if self.kind is OwnerKind.STATE:
            slot = _SLOT.match(self.part)
            return State(self.start, self.of, slot[1] if slot else "")
        return State(self.start) if self.kind is OwnerKind.PARAM_GROUP else State()

    @property
    def entry(self) -> tuple[str, str]:
        """The dictionary or list that a tensor is an entry of, and its key; ("", "") for other paths."""
        found = _ENTRY.fullmatch(self.path)
        return (found["collection"], found["key"]) if found else ("", "")

    @property
    def layer_of_cache(self) -> str:
        """The path to keys or values without the index of the pair of both, where they are one: `past[3]`."""
        return _PAIR.sub("", self.path)

    @property
    def collection_of_holder(self) -> str:
        """The list or dictionary that the exception is in, `run.errors` for `run.errors[3][1]`; else ""."""
        collection, bracket, _ = self.holder.partition("[")
        return collection if bracket else ""

    @property
    def output(self) -> tuple[str, str]:
        """What a notebook or Python's prompt calls a displayed value, and its cell: ("Out[7]", "7"), ("_", "")."""
        found = _OUTPUT.match(self.path)
        return (found["name"], found["cell"] or "") if found else ("", "")


NOBODY = OwnerName()


def variables_of(names: Iterable[str]) -> frozenset[str]:
    """The variables that these names begin with: `losses`, `self.model`."""
    return frozenset(found[0] for name in names if (found := _VARIABLE.match(name)))


def root_of(path: str) -> str:
    """The variable of a model in the path of one of its parameters."""
    found = _ROOT.match(path)
    return found[0] if found else path
