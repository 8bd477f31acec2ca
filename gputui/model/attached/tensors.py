"""The storages of a process's tensors, each with an owner and a category."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from gputui.model.attached.owners import NOBODY, OwnerName
from gputui.model.reading import Problem


class Category(str, Enum):
    """What a storage is for, in the words of the attach document."""

    PARAMETER = "parameter"
    GRADIENT = "gradient"
    OPTIMIZER_STATE = "optimizer_state"
    BUFFER = "buffer"
    ACTIVATION = "activation"
    """Saved for backward, or a result of the forward pass that is still alive."""
    KV_CACHE = "kv_cache"
    """Keys and values of earlier tokens that generation reuses."""
    WORKSPACE = "workspace"
    OTHER = "other"
    UNATTRIBUTED = "unattributed"
    NEWER = "newer"
    """Allocated after the tensors were looked at; the attach document counts it as unattributed."""

    @property
    def words(self) -> str:
        """The category in a sentence: "optimizer state", "KV cache"."""
        return CATEGORIES[self].words or self.value.replace("_", " ")


class CategoryFacts(NamedTuple):
    """How a category is shown, and what becomes of its memory; a new one needs these, and a colour in `styles.tcss`."""

    letter: str
    """Stands for it where there are no colours."""
    short: str
    """In the legend of the map."""
    plural: str
    """As a heading, and in a sum."""
    words: str = ""
    """In a sentence, if that is not its value."""
    comes_and_goes: bool = False
    """Whether it can leak. The others grow while a model is built and in its first step, and then stay."""
    is_of_models: bool = False
    """Whether it belongs to a model or to its optimizer."""
    stays: bool = False
    """Whether it keeps its place for as long as these live. The probe has the same in `probe/tensors/entries.py`."""
    is_weight: bool = False
    """Whether it is what an optimizer changes, and what a copy of the model copies."""


CATEGORIES = {
    Category.PARAMETER: CategoryFacts("P", "param", "parameters", is_of_models=True, stays=True, is_weight=True),
    Category.GRADIENT: CategoryFacts("G", "grad", "gradients", is_of_models=True),
    Category.OPTIMIZER_STATE: CategoryFacts("O", "optim", "optimizer state", is_of_models=True, stays=True),
    Category.BUFFER: CategoryFacts("B", "buffer", "buffers", is_of_models=True, stays=True),
    Category.ACTIVATION: CategoryFacts("A", "activ", "activations", comes_and_goes=True),
    Category.KV_CACHE: CategoryFacts("K", "kv", "KV cache", "KV cache", comes_and_goes=True),
    Category.WORKSPACE: CategoryFacts("W", "work", "workspaces"),
    Category.OTHER: CategoryFacts("X", "other", "other tensors", comes_and_goes=True),
    Category.UNATTRIBUTED: CategoryFacts("U", "unattr", "unattributed", comes_and_goes=True),
    Category.NEWER: CategoryFacts(
        "N", "newer", "newer than the last look", "newer than the last look", comes_and_goes=True
    ),
}
"""In the order in which they are shown."""
COMES_AND_GOES = frozenset(category for category, facts in CATEGORIES.items() if facts.comes_and_goes)
OF_MODELS = tuple(category for category, facts in CATEGORIES.items() if facts.is_of_models)
STAYING = tuple(category for category, facts in CATEGORIES.items() if facts.stays)
WEIGHTS = tuple(category for category, facts in CATEGORIES.items() if facts.is_weight)
NAMELESS = (Category.UNATTRIBUTED, Category.NEWER)
"""Memory of which no owner is known, or not yet."""


class Keeper(str, Enum):
    """What keeps a storage alive that no variable of the program leads to."""

    NONE = ""
    EXCEPTION = "exception"
    """An exception that is being handled or that a variable holds keeps the locals of the functions it came through."""
    LAST_EXCEPTION = "last_exception"
    """Python keeps the last exception of an interactive session: `sys.last_value`."""
    NOTEBOOK_EXCEPTION = "notebook_exception"
    """IPython keeps it too."""
    LOST_EXCEPTION = "lost_exception"
    """No variable leads to the exception: most often it is in a reference cycle, and waits for a garbage collection."""
    NOTEBOOK_OUTPUT = "notebook_output"
    """IPython keeps what the cells of a notebook have displayed: `Out[7]`, `_`, `_7`."""
    INTERPRETER_OUTPUT = "interpreter_output"
    """Python keeps the last value that an interactive session has displayed: `_`."""
    OPTIMIZER = "optimizer"
    """An optimizer keeps its parameters, although no module has them any more."""
    REDUCER = "reducer"
    """DistributedDataParallel's buckets, into which it copies gradients to reduce them."""
    CYCLE = "cycle"
    """Only a reference cycle: nothing else in Python refers to it, and it waits for a garbage collection."""

    GRADIENT_GRAPH = "gradient_graph"
    """A parameter and its gradient keep each other in C++: the gradient has a graph (`create_graph=True`)."""

    @property
    def words(self) -> str:
        """The keeper in a sentence, "" for none."""
        return _KEEPER_WORDS.get(self, "")


_KEEPER_WORDS = {
    Keeper.EXCEPTION: "an exception",
    Keeper.LAST_EXCEPTION: "the last exception",
    Keeper.NOTEBOOK_EXCEPTION: "the last exception",
    Keeper.LOST_EXCEPTION: "an exception without a variable",
    Keeper.NOTEBOOK_OUTPUT: "the notebook's outputs",
    Keeper.INTERPRETER_OUTPUT: "the last displayed value",
    Keeper.OPTIMIZER: "an optimizer alone",
    Keeper.REDUCER: "DistributedDataParallel",
    Keeper.CYCLE: "reference cycles",
    Keeper.GRADIENT_GRAPH: "a gradient's graph",
}


HOST = -1
"""The device number of storages in host memory."""


@dataclass(frozen=True, slots=True)
class Storage:
    """One storage, counted once however many views it has.

    `owner` is a name a person would write: "model.layers.0.weight", "logits (train.py:23 in step)". The line is that at
    which the function is or, for a tensor with an autograd graph, those that assign the variable: "train.py:20, 23".
    `type`, `shape` and `dtype` are those of the tensor that it is named after. `saved_by` is the operation that keeps
    it for backward, or "". `module` is the path of the module that owns it or whose forward pass made it,
    "model.transformer.h.0.mlp.c_fc", or "" where the probe does not know it. `keeper` says what keeps it alive if no
    variable of the program does. `kept_by` is the variable whose autograd graph keeps the storage,
    "losses[3] (train.py:31 in main)", if no variable holds the storage itself. `views` are the parts that its tensors
    show, as (offset, bytes), where they are a quarter of it at most; () otherwise.
    """

    device: int
    address: int
    size_bytes: int
    category: Category
    owner: OwnerName
    type: str
    shape: tuple[int, ...]
    dtype: str
    saved_by: str = ""
    is_pinned: bool = False
    module: str = ""
    keeper: Keeper = Keeper.NONE
    kept_by: OwnerName = NOBODY
    views: tuple[tuple[int, int], ...] = ()

    @property
    def shown_bytes(self) -> int:
        """How much of it the tensors show that were found."""
        return min(self.size_bytes, sum(size for _, size in self.views)) if self.views else self.size_bytes

    @property
    def hidden_bytes(self) -> int:
        """How much of it they keep and do not show."""
        return self.size_bytes - self.shown_bytes


@dataclass(frozen=True, slots=True)
class Container:
    """A list, dictionary, set, deque or `lru_cache` in which tensors were found.

    `ident` is the same in all looks at one container; `name` can differ, as it is that of the nearest variable.
    `where` is the place of that variable, "train.py:31 in main" or "metrics.py" for a global, and `held_by` the
    class that has it as an attribute, "Metrics in callbacks.py"; `grown_at` is the line of the program that adds to
    it, "callbacks.py:31 in after_batch", or "" where none was found. `elements` is its exact length, and `limit`
    the `maxlen` of a deque or the `maxsize` of a cache (0: none). Of its elements, `read` had tensors in this look,
    and `graphs` of these keep an autograd graph; the graphs of `walked` of them have `nodes` operations together.
    """

    ident: int
    name: str
    where: str
    held_by: str
    type: str
    elements: int
    grown_at: str = ""
    limit: int = 0
    read: int = 0
    graphs: int = 0
    walked: int = 0
    nodes: int = 0


@dataclass(frozen=True, slots=True)
class KnownSize:
    """What a block without a tensor most likely is, if exactly this size was requested on this device."""

    device: int
    size_bytes: int
    category: Category
    owner: str
    keeper: Keeper = Keeper.NONE


@dataclass(frozen=True, slots=True)
class Inventory:
    """All storages found in one look.

    `how` is "walk" (known modules and optimizers, autograd graph, frames) or "scan" (every Python object).
    `is_of_one_moment` is false if it could not be taken together with the allocator's map.
    """

    storages: tuple[Storage, ...]
    how: str
    is_of_one_moment: bool
    problems: tuple[Problem, ...] = ()
    known_sizes: tuple[KnownSize, ...] = ()
    """Workspaces and the like, which no Python object owns and which only their requested size identifies."""
    is_complete: bool = True
    """False if there was no time for everything: `storages` are then part of what there is."""
    time: float = 0.0
    """When the inventory was taken (epoch seconds); 0: in the look it belongs to."""
    newer: tuple[tuple[int, int], ...] = ()
    """(device, address) of the blocks that were allocated after it was taken."""
    containers: tuple[Container, ...] = ()
    """Those with most elements that hold tensors; the search may not have come to others."""
    empties: tuple[str, ...] = ()
    """Where the program calls `torch.cuda.empty_cache()`: "train.py:31 in step"."""
    creates_graph: tuple[str, ...] = ()
    """Where it passes `create_graph` to a function."""
    may_find_more: bool = False
    """Whether the probe knows ways to what has no name that it has not gone yet."""

    @property
    def is_searched(self) -> bool:
        """Whether nothing leads to what has no name, as far as looks can tell."""
        return self.is_complete and not self.may_find_more
