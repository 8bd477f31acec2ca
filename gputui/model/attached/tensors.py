"""The storages of a process's tensors, each with an owner and a category."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from gputui.model.attached.owners import NOBODY, Keeper, OwnerName
from gputui.model.reading import Problem
from gputui.protocol import categories


class Category(str, Enum):
    """What a storage is for; the values are those of the attach document."""

    PARAMETER = categories.PARAMETER
    GRADIENT = categories.GRADIENT
    OPTIMIZER_STATE = categories.OPTIMIZER_STATE
    BUFFER = categories.BUFFER
    ACTIVATION = categories.ACTIVATION
    """Saved for backward, or a result of the forward pass that is still alive."""
    KV_CACHE = categories.KV_CACHE
    """Keys and values of earlier tokens that generation reuses."""
    WORKSPACE = categories.WORKSPACE
    OTHER = categories.OTHER
    UNATTRIBUTED = "unattributed"
    NEWER = "newer"
    """Allocated after the look at the tensors; the attach document counts it as unattributed."""

    @property
    def words(self) -> str:
        """The category's name inside a sentence: "optimizer state", "KV cache"."""
        return CATEGORIES[self].words or self.value.replace("_", " ")


class CategoryFacts(NamedTuple):
    """How a category is shown and described. `protocol/categories.py` says which categories models own."""

    letter: str
    """Shown for the category where there are no colours."""
    colours: tuple[str, str]
    """Its colour in a style sheet, and that of a terminal with 16 colours."""
    short: str
    """Its name in the legend of the map."""
    plural: str
    """Its name as a heading, and in a sum."""
    stuck: str
    """What to do where it keeps a segment; `explain/advice/allocator/expandable.py` sets {setting} and {caution}."""
    words: str = ""
    """Its name inside a sentence, "": as in the document."""
    holder: str = ""
    """Its name as what holds memory, "": its plural."""
    comes_and_goes: bool = False
    """Whether it can leak. Other categories grow while a model is built and in its first step, and then stay."""


_STAYS = (
    "They live as long as the model, so the free parts of their segments can only serve requests that fit between them;"
    " with {setting}, set before the program starts, these parts can be released. {caution}"
)
CATEGORIES = {
    Category.PARAMETER: CategoryFacts("P", ("#5b8ff9", "ansi_blue"), "param", "parameters", _STAYS),
    Category.GRADIENT: CategoryFacts(
        "G", ("#f6bd16", "ansi_yellow"), "grad", "gradients",
        "Gradients live until zero_grad(set_to_none=True). After it empty_cache() can return the rest of their"
        " segments, but the next step takes it again.",
    ),
    Category.OPTIMIZER_STATE: CategoryFacts("O", ("#b37feb", "ansi_magenta"), "optim", "optimizer state", _STAYS),
    Category.BUFFER: CategoryFacts("B", ("#36cfc9", "ansi_cyan"), "buffer", "buffers", _STAYS),
    Category.ACTIVATION: CategoryFacts(
        "A", ("#5ad8a6", "ansi_green"), "activ", "activations", comes_and_goes=True,
        stuck="They are freed by their backward pass, or with the variable that keeps their graph; then empty_cache()"
        " can return the rest.",
    ),
    Category.KV_CACHE: CategoryFacts(
        "K", ("#ffa39e", "ansi_bright_blue"), "kv", "KV cache", words="KV cache", holder="the KV cache",
        stuck="A cache lives as long as its request or the variable that keeps it; once it is deleted, empty_cache()"
        " can return the rest.", comes_and_goes=True,
    ),
    Category.WORKSPACE: CategoryFacts(
        "W", ("#d3adf7", "ansi_bright_yellow"), "work", "workspaces", holder="workspaces of libraries",
        stuck="A workspace lives as long as its thread and stream: there is nothing to delete.",
    ),
    Category.OTHER: CategoryFacts(
        "X", ("#87e8de", "ansi_bright_cyan"), "other", "other tensors", comes_and_goes=True,
        stuck="Delete them, or move what you need to host memory (.cpu()); then empty_cache() can return the rest.",
    ),
    Category.UNATTRIBUTED: CategoryFacts(
        "U", ("$foreground", "ansi_bright_white"), "unattr", "unattributed",
        "No variable leads to these blocks: C++ code or a library may hold them.",
        holder="blocks without a known owner", comes_and_goes=True,
    ),
    Category.NEWER: CategoryFacts(
        "N", ("#ffec3d", "ansi_white"), "newer", "newer than the last look",
        "These blocks are newer than the last look at the tensors; the next look may name them.",
        "newer than the last look", "tensors newer than the last look", comes_and_goes=True,
    ),
}  # fmt: skip
"""The categories in the order in which they are shown."""
OF_MODELS = tuple(category for category in CATEGORIES if category.value in categories.OWNED)
WEIGHTS = tuple(category for category in CATEGORIES if category.value in categories.WEIGHTS)
COMES_AND_GOES = tuple(category for category, facts in CATEGORIES.items() if facts.comes_and_goes)
OF_VARIABLES = tuple(category for category in COMES_AND_GOES if category is not Category.KV_CACHE)
"""What variables hold one by one, while a KV cache counts as a whole, whatever variables hold it."""
OF_MODULES = (*WEIGHTS, Category.BUFFER)
NAMELESS = (Category.UNATTRIBUTED, Category.NEWER)
"""Memory whose owner is not known, or not yet."""

HOST = -1
"""The device number of storages in host memory."""


@dataclass(frozen=True, slots=True)
class Storage:
    """One storage, counted once however many views it has.

    `owner` is a name a person would write: "model.layers.0.weight", "logits (train.py:23 in step)". The line is that at
    which the function is or, for a tensor with an autograd graph, those that assign the variable: "train.py:20, 23".
    `type`, `shape` and `dtype` are those of the tensor after which the storage is named. `saved_by` is the operation
    that saved it for backward, or "". `module` is the path of the module that owns it or whose forward pass made it,
    "model.transformer.h.0.mlp.c_fc", or "" where the probe does not know it. `keeper` says what keeps the storage alive
    if no variable of the program does. `kept_by` is the variable whose autograd graph keeps the storage,
    "losses[3] (train.py:31 in main)", if no variable holds the storage itself. `views` are the parts that tensors
    cover, as (offset, bytes), if these are at most a quarter of the storage; () otherwise.
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
        """How much of the storage is covered by the tensors that were found."""
        return min(self.size_bytes, sum(size for _, size in self.views)) if self.views else self.size_bytes

    @property
    def hidden_bytes(self) -> int:
        """How much of the storage its tensors keep and do not cover."""
        return self.size_bytes - self.shown_bytes


@dataclass(frozen=True, slots=True)
class Container:
    """A list, dictionary, set, deque or `lru_cache` in which tensors were found.

    `ident` is the same in all looks at one container; `name` can differ, as it is that of the nearest variable.
    `where` is the place of that variable, "train.py:31 in main" or "metrics.py" for a global, and `held_by` the class
    that has the container as an attribute, "Metrics in callbacks.py"; `grown_at` is the line of the program that adds
    to it, "callbacks.py:31 in after_batch", or "" where none was found. `elements` is its exact length, and `limit` the
    `maxlen` of a deque or the `maxsize` of a cache (0: none). In this look, `read` elements had tensors, and `graphs`
    of these keep an autograd graph; of those, `walked` graphs were followed and have `nodes` operations together.
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
    """What a block without a tensor most likely is, if exactly this size was requested for it on this device."""

    device: int
    size_bytes: int
    category: Category
    owner: str
    keeper: Keeper = Keeper.NONE


@dataclass(frozen=True, slots=True)
class Inventory:
    """All storages found in one look.

    `how` is "walk" (known modules and optimizers, autograd graph, frames), "scan" (every Python object) or "snapshot"
    (a file of PyTorch's). `is_of_one_moment`: it was taken together with the allocator's map.
    """

    storages: tuple[Storage, ...]
    how: str
    is_of_one_moment: bool
    problems: tuple[Problem, ...] = ()
    known_sizes: tuple[KnownSize, ...] = ()
    """Workspaces and the like, which no Python object owns and which only their requested size identifies."""
    is_complete: bool = True
    """False if there was no time for everything: some storages may be missing."""
    time: float = 0.0
    """When the inventory was taken (epoch seconds); 0: in the look it belongs to."""
    newer: tuple[tuple[int, int], ...] = ()
    """(device, address) of the blocks that were allocated after the inventory was taken."""
    containers: tuple[Container, ...] = ()
    """The containers with the most elements that hold tensors; the search may not have come to others."""
    empties: tuple[str, ...] = ()
    """Where the program calls `torch.cuda.empty_cache()`: "train.py:31 in step"."""
    creates_graph: tuple[str, ...] = ()
    """Where the program passes `create_graph` to a function."""
    may_find_more: bool = False
    """Whether the probe has not followed all references yet, and may find owners of what has no name."""

    @property
    def is_searched(self) -> bool:
        """Whether looks have searched all they can, so that what has no name now gets none in later looks."""
        return self.is_complete and not self.may_find_more
