"""What the name of an owner says, taken apart: the advice reads the probe's names here and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

_NOTED = re.compile(
    r"(?P<path>.*?) \("
    r"(?:(?P<exception>(?:\w+ )?exception(?= |,|\))[^()]*?)(?:, (?=[^,()]*:\d)|(?=\))))?"
    r"(?P<place>[^()]*)\)"
)
_FUNCTION = re.compile(r"(?P<file>[^:]+):\d+(?:, \d+)* in (?P<name>.+)")
_VARIABLE = re.compile(r"(?:self\.)?\w+")
_ROOT = re.compile(r"(?:self\.)?\w+(?:\[[^\]]*\])?")
_STATE = re.compile(r"(?P<optimizer>.*?)\.(?:state|param_groups)\[(?P<parameter>.*)\](?:\.(?P<slot>\w+))?")
_ENTRY = re.compile(r"(?P<collection>.+)\[(?P<key>[^\[\]]*)\]")
_PAIR = re.compile(r"(?<=\d\])\[[01]\]$")
_OUTPUT = re.compile(r"(?P<name>Out\[(?P<cell>\d+)\]|_+\d*)")
_OF_EXCEPTION = "exception "


class Label(NamedTuple):
    """`losses[3] (train.py:23 in step)`: the path to a tensor, and the line of its variable.

    `exception` is what keeps a local variable alive, in words: "exception errors[3]", "last exception"; else "".
    """

    path: str
    place: str = ""
    exception: str = ""

    @property
    def function(self) -> tuple[str, str]:
        """The file and the function of a local variable: ("train.py", "step"); ("", "") for other variables."""
        found = _FUNCTION.fullmatch(self.place)
        return (found["file"], found["name"]) if found else ("", "")

    @property
    def variable(self) -> str:
        """The variable that the path begins with: `losses`, `self.model`."""
        found = _VARIABLE.match(self.path)
        return found[0] if found else ""

    @property
    def root(self) -> str:
        """The variable of a model in the path of one of its parameters: `model`, `self.model`, `models[0]`."""
        found = _ROOT.match(self.path)
        return found[0] if found else self.path

    @property
    def state(self) -> State:
        """What the path of an optimizer's state says."""
        found = _STATE.match(self.path)
        return State(*(part or "" for part in found.groups())) if found else State()

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
    def holder(self) -> str:
        """The variable that holds the exception that keeps a local one, `errors[3]`; else ""."""
        return self.exception[len(_OF_EXCEPTION) :] if self.exception.startswith(_OF_EXCEPTION) else ""

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


class State(NamedTuple):
    """`opt.state[model.fc.weight].exp_avg`: the optimizer, the parameter and the name of the state; "" if not said."""

    optimizer: str = ""
    parameter: str = ""
    slot: str = ""


@lru_cache(1 << 17)
def label_of(name: str) -> Label:
    """The parts of an owner's name."""
    found = _NOTED.fullmatch(name)
    return Label(found["path"], found["place"], found["exception"] or "") if found else Label(name)


def variables_of(names: Iterable[str]) -> frozenset[str]:
    """The variables that these names begin with."""
    return frozenset(label_of(name).variable for name in names) - {""}
