"""Names of a storage's owner, whose facts are fields (nothing parses the text), and what keeps storages without one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple


class OwnerKind(str, Enum):
    """What an owner's name names."""

    VARIABLE = ""
    STATE = "state"
    """State of an optimizer for one parameter."""
    PARAM_GROUP = "param_group"
    """A value in one of an optimizer's parameter groups."""
    ARGUMENT = "argument"
    """An argument that an operation has saved for its backward pass."""
    RESULT = "result"
    """The result of an operation, to which no variable leads."""
    COPY = "copy"
    """A copy of a parameter with another element type."""
    UNNAMED = "unnamed"
    """A tensor to which no variable leads: its class is named."""
    CYCLE = "cycle"
    """Objects that refer to each other, and to which nothing else refers."""
    LINE = "line"
    """Only the line that allocated the storage is known."""
    WORDS = "words"
    """A sentence that the probe wrote."""


_TEXTS = {
    OwnerKind.STATE: "{path}.state[{of}]{part}",
    OwnerKind.ARGUMENT: "{path} of {of}",
    OwnerKind.RESULT: "result of {path}{part}",
    OwnerKind.UNNAMED: "unnamed {path}{part}",
    OwnerKind.CYCLE: "A cycle of {path}",
}
"""The text of a name without its place; of kinds that are not here it is `{path}{part}`."""
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
    """Of `opt.state[model.fc.weight].exp_avg`, "opt", "model.fc.weight" and "exp_avg"; "" for what a name lacks."""

    optimizer: str = ""
    parameter: str = ""
    slot: str = ""


class OwnerName(str):
    """The name of an owner, `losses[3] (train.py:23 in step)`, as text with the facts that it was written from.

    `path` is the text without the part in brackets, `start` the first fact: a variable with the steps from it to the
    tensor, or what `kind` says. `place` is the line of the variable's function, or the lines that assign the variable.
    """

    __slots__ = ("exception", "facts", "holder", "kind", "of", "part", "path", "place", "start", "where")

    exception: str
    """The exception that keeps the local variable: "exception errors[3]", "last exception"; "" without one."""
    facts: tuple[str, ...]
    """The arguments of the constructor, as the protocol and recordings have them."""
    holder: str
    """The variable that holds this exception, `errors[3]`; "" without one."""
    kind: OwnerKind
    of: str
    part: str
    path: str
    place: str
    start: str
    where: str
    """The text in brackets behind the path."""

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
        """The same name without the exception that keeps the variable."""
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
        """The parts of the name of an optimizer's state; all are "" for other kinds."""
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
        """The path of a layer in a KV cache, `past[3]` for both `past[3][0]` (keys) and `past[3][1]` (values)."""
        return _PAIR.sub("", self.path)

    @property
    def collection_of_holder(self) -> str:
        """The list or dictionary that holds the exception, `run.errors` for `run.errors[3][1]`; "" without one."""
        collection, bracket, _ = self.holder.partition("[")
        return collection if bracket else ""

    @property
    def output(self) -> tuple[str, str]:
        """The name of a displayed value in a notebook or Python's prompt, and its cell: ("Out[7]", "7"), ("_", "")."""
        found = _OUTPUT.match(self.path)
        return (found["name"], found["cell"] or "") if found else ("", "")


NOBODY = OwnerName()


def variables_of(names: Iterable[str]) -> frozenset[str]:
    """The variables that these names begin with: `losses`, `self.model`."""
    return frozenset(found[0] for name in names if (found := _VARIABLE.match(name)))


def root_of(path: str) -> str:
    """The variable of a model in the path of one of its parameters; the path itself if it begins with no variable."""
    found = _ROOT.match(path)
    return found[0] if found else path


class Keeper(str, Enum):
    """What keeps a storage alive to which no variable of the program leads."""

    NONE = ""
    EXCEPTION = "exception"
    """An exception, which is being handled or in a variable, keeps the locals of the functions that it came through."""
    LAST_EXCEPTION = "last_exception"
    NOTEBOOK_EXCEPTION = "notebook_exception"
    LOST_EXCEPTION = "lost_exception"
    NOTEBOOK_OUTPUT = "notebook_output"
    """IPython keeps what the cells of a notebook have displayed: `Out[7]`, `_`, `_7`."""
    INTERPRETER_OUTPUT = "interpreter_output"
    OPTIMIZER = "optimizer"
    REDUCER = "reducer"
    CYCLE = "cycle"
    GRADIENT_GRAPH = "gradient_graph"
    UNKNOWN = "unknown"

    @property
    def facts(self) -> KeeperFacts:
        """The words for the keeper."""
        return KEEPERS[self]


class KeeperFacts(NamedTuple):
    """The words for a keeper. One with a `title` needs no rule of its own in `explain/advice/held/keepers.py`."""

    words: str
    """The keeper's name inside a sentence."""
    rule: str = ""
    """The kind of the finding that says what the keeper keeps."""
    cure: str = ""
    """What frees the kept storages, if one sentence can say it; may contain {bytes}."""
    title: str = ""
    """The title of the finding, without its bytes; may contain {name} (the owner's) and {line}, as `told` sets them."""
    evidence: str = ""
    """Explains the title, where the owner's name says all about the kept storages; "": they are listed instead."""
    is_mistake: bool = False
    """Nobody keeps storages so on purpose: the finding is a problem, comes first, and shows in small programs, too."""


_FORGET_LAST = "import sys, gc; sys.last_value = sys.last_traceback = sys.last_exc = None"
KEEPERS = {
    Keeper.NONE: KeeperFacts(""),
    Keeper.NOTEBOOK_EXCEPTION: KeeperFacts(
        "the last exception", "kept_by_exception",
        f"To free them, run in a cell: {_FORGET_LAST};"
        " get_ipython().InteractiveTB.tb = get_ipython().last_execution_result = None; gc.collect()",
    ),
    Keeper.LAST_EXCEPTION: KeeperFacts(
        "the last exception", "kept_by_exception", f"To free them: {_FORGET_LAST}; gc.collect()",
    ),
    Keeper.EXCEPTION: KeeperFacts(
        "an exception", "kept_by_exception",
        "Leave the except block before you try again, or delete the variable that holds the exception;"
        " traceback.clear_frames(error.__traceback__) frees the locals and keeps the message.",
    ),
    Keeper.LOST_EXCEPTION: KeeperFacts(
        "an exception without a variable", "kept_by_exception",
        "No variable leads to it, so it most likely waits for a garbage collection: import gc;"
        " gc.collect() frees them.",
    ),
    Keeper.NOTEBOOK_OUTPUT: KeeperFacts("the notebook's outputs", "kept_by_output"),
    Keeper.INTERPRETER_OUTPUT: KeeperFacts(
        "the last displayed value", "kept_by_output",
        "Display another value, such as 0: Python keeps only the last one.",
    ),
    Keeper.OPTIMIZER: KeeperFacts(
        "an optimizer alone", "kept_by_optimizer",
        "Create the optimizer again after the model: it still trains the old parameters instead of the new ones.",
    ),
    Keeper.REDUCER: KeeperFacts(
        "DistributedDataParallel", "gradient_buckets",
        "Pass gradient_as_bucket_view=True to DistributedDataParallel: the gradients are then views of the buckets,"
        " which saves up to {bytes}.",
        "DistributedDataParallel keeps {name}:",
        "Gradients are copied there to be reduced, as large as the gradients themselves.",
    ),
    Keeper.CYCLE: KeeperFacts("reference cycles", "kept_by_cycle"),
    Keeper.GRADIENT_GRAPH: KeeperFacts(
        "a gradient's graph", "kept_by_gradient_graph",
        "Set the .grad of its parameters to None before you let a model go, or use torch.autograd.grad(loss,"
        " parameters, create_graph=True), which stores nothing in .grad.",
        "backward(create_graph=True){line} keeps models that are gone:",
        "A parameter and the graph of its gradient refer to each other in C++: gc.collect() does not free them.",
        is_mistake=True,
    ),
    Keeper.UNKNOWN: KeeperFacts("something unknown to this gputui"),
}  # fmt: skip
"""Of two keepers with the same rule, the cure of the first also frees what the second keeps. The statements for
notebooks were tried in ipykernel 7 with IPython 9: each frees the memory at once."""
