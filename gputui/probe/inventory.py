"""The inventory: every storage of the program's tensors, with an owner whose name a person would recognise.

A storage belongs to the first of these that leads to it: parameters, their gradients, buffers, optimizer states, what
the autograd graph saves for backward, and other tensors by the variable that holds them. None of the program's code is
run, none of its objects is kept alive, and CUDA is not initialised.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from gputui.probe import known_sizes, stacks
from gputui.probe.attributes import AttributeReader
from gputui.probe.autograd import Graph, Saved
from gputui.probe.gradients import GradientReader
from gputui.probe.isolation import isolated
from gputui.probe.model_states import ModelStates
from gputui.probe.modules import ScanFinds, named_modules, outermost
from gputui.probe.referrers import name_by_referrers
from gputui.probe.storages import Ledger
from gputui.probe.torch_types import Tensor, Torch
from gputui.probe.variables import MODULE, OPTIMIZER, TENSOR, NamedValue, TypeClassifier, VariableSearch

WALK, SCAN = "walk", "scan"
ACTIVATION, OTHER, GRADIENT, PARAMETER = "activation", "other", "gradient", "parameter"

SAVED_UNKNOWN = (
    "PyTorch before 2.10 does not show which tensors are saved for the backward pass: they count as unattributed."
)
IN_BACKWARD = (
    "Another thread is in its backward pass, so the tensors saved for it were left out: look again when it has ended."
)
FROZEN = "The program has called gc.freeze(): objects created before it are found only through variables."
VARIABLES_UNKNOWN = "This Python's local variables cannot be read safely: only global variables were looked at."

CHECKPOINTED = "kept by a saved-tensor hook"
UNNAMED = "unnamed"

NOT_READY = "PyTorch is still being imported."
NEEDED = ("_C", "Tensor", "nn", "optim", "cuda")

UNFORESEEN = (RuntimeError, TypeError, ValueError, AttributeError, LookupError, ReferenceError, AssertionError)

_scan_finds = ScanFinds()


def take_inventory(torch: Torch, method: str = WALK) -> dict[str, Any]:
    """The fields of `gputui.model.tensors.Inventory`, as plain lists, dictionaries, strings and numbers.

    `method` is "walk" (variables, modules, optimizers, the autograd graph, young objects: milliseconds) or "scan" (all
    Python objects: a tenth of a second in a large program). Call it in the main thread, as a pending call.
    """
    if not all(hasattr(torch, name) for name in NEEDED):
        return {"storages": [], "how": method, "problems": [NOT_READY], "known_sizes": []}
    was_collecting = gc.isenabled()
    gc.disable()  # a collection in the middle would run the program's destructors
    try:
        return isolated(torch, lambda: _InventoryRun(torch, method).result())
    finally:
        if was_collecting:
            gc.enable()


class _InventoryRun:
    """Takes one inventory; everything it holds is dropped with it."""

    def __init__(self, torch: Torch, method: str) -> None:
        self._torch = torch
        self._method = method
        self._problems: list[str] = []
        self._attributes = AttributeReader()
        self._classifier = TypeClassifier(torch)
        self._search = VariableSearch(self._classifier, self._attributes)
        self._loose: list[Any] = []
        """Tensors among Python's objects, whether or not a variable leads to them."""
        self._loose_modules: list[NamedValue] = []
        self._ledger = Ledger(torch, self._attributes, asks_pinned=method == SCAN and _may_ask_pinned(torch))
        self._gradients = GradientReader(torch)
        self._model_states = ModelStates(torch, self._ledger, self._gradients)
        self._graph = Graph(torch, self._attributes)
        self._unnamed: set[int] = set()
        """The addresses of storages that have only autograd's name so far."""

    def result(self) -> dict[str, Any]:
        self._attempt(self._discover)
        self._attempt(self._record_owned)
        self._attempt(self._record_saved)
        self._attempt(self._record_variables)
        self._attempt(self._record_leaves)
        self._attempt(self._record_loose)
        storages = list(self._ledger.entries.values())
        return {
            "storages": storages,
            "how": self._method,
            "problems": self._problems,
            "known_sizes": known_sizes.known_sizes(self._torch, storages),
        }

    def _attempt(self, part: Callable[[], None]) -> None:
        """Do one part of the inventory. An untested version of PyTorch must cost that part, and not the program."""
        try:
            part()
        except UNFORESEEN as error:
            cause = f"{part.__name__.strip('_')}: {type(error).__name__}: {error}"
            self._problems.append(f"A part of the inventory could not be read ({cause}).")

    def _discover(self) -> None:
        """Find modules, optimizers and tensors: by variable, from earlier scans, and among Python's objects."""
        if not stacks.can_read_variables():
            self._problems.append(VARIABLES_UNKNOWN)
        self._search.search(stacks.namespaces())
        self._search.explore(_scan_finds.alive())
        groups = self._classifier.group(self._objects())
        self._loose = groups[TENSOR]
        self._loose_modules = [NamedValue(module, type(module).__name__, "") for module in groups[MODULE]]
        self._search.explore([NamedValue(optimizer, type(optimizer).__name__, "") for optimizer in groups[OPTIMIZER]])
        if self._method == SCAN:
            in_variables = {id(named.value) for named in self._search.modules}
            hidden = [named for named in outermost(self._loose_modules) if id(named.value) not in in_variables]
            _scan_finds.remember(hidden + self._search.optimizers)

    def _objects(self) -> list[Any]:
        """Python's objects: all for a scan, otherwise the young ones, among them the intermediate results of a step."""
        if self._method == SCAN:
            if gc.get_freeze_count():
                self._problems.append(FROZEN)
            return gc.get_objects()
        return gc.get_objects(generation=0) + gc.get_objects(generation=1)

    def _record_owned(self) -> None:
        modules = list(named_modules(self._search.modules, self._loose_modules))
        for module, name in modules:
            self._search.explore(self._search.module_attributes(module, name), levels=1)
        self._model_states.record_modules(modules)
        variables = {id(named.value): named for named in self._search.tensors}
        for optimizer in self._search.optimizers:
            self._model_states.record_optimizer(optimizer.name, self._attributes.read(optimizer.value), variables)

    def _record_saved(self) -> None:
        if not self._graph.is_readable:
            self._problems.append(SAVED_UNKNOWN)
            return
        if stacks.another_thread_is_in_backward() and self._torch._C._current_graph_task_id() == -1:
            self._problems.append(IN_BACKWARD)
            return
        tensors = [named.value for named in self._search.tensors] + self._loose
        while tensors:
            for saved in self._graph.walk(map(self._gradients.node, tensors)):
                self._record_one_saved(saved)
            held = self._search.held_by(self._graph.take_packed())
            for named in held:
                self._mark_saved(self._ledger.record(named.value, ACTIVATION, CHECKPOINTED), CHECKPOINTED, "")
            tensors = [named.value for named in held]

    def _record_one_saved(self, saved: Saved) -> None:
        owner = f"{saved.argument} of {saved.operation}"
        entry = self._ledger.record(saved.tensor, ACTIVATION, owner)
        if entry is not None and entry["owner"] is owner:
            source = self._model_states.name_of(self._graph.copied_from(saved))
            if source is not None:
                entry["owner"] = f"{source} ({entry['dtype']} copy)"
        self._mark_saved(entry, owner, saved.operation)

    def _mark_saved(self, entry: dict[str, Any] | None, owner: str, operation: str) -> None:
        if entry is not None and entry["category"] == ACTIVATION and not entry["saved_by"]:
            entry["saved_by"] = operation
            if entry["owner"] is owner:
                self._unnamed.add(entry["address"])

    def _record_variables(self) -> None:
        for named in self._search.tensors:
            self._record_variable(named)

    def _record_variable(self, named: NamedValue) -> None:
        entry = self._ledger.record(named.value, self._category(named.value), named.label)
        if entry is not None and entry["address"] in self._unnamed:
            self._unnamed.discard(entry["address"])
            self._ledger.rename(entry, named.value, named.label)
        self._model_states.record_gradient(named.value, named.name, named.where)

    def _record_leaves(self) -> None:
        """Parameters that only the graph leads to, because nothing that was searched holds their modules."""
        parameter = self._torch.nn.Parameter
        for leaf in self._graph.leaves:
            self._record_unnamed(leaf, PARAMETER if issubclass(type(leaf), parameter) else ACTIVATION)

    def _record_loose(self) -> None:
        """Python's other tensors: those on an interpreter's stack, and those that no variable leads to."""
        unnamed = [tensor for tensor in self._loose if self._record_unnamed(tensor, self._category(tensor))]
        if self._method == SCAN:
            self._name_by_referrers(unnamed)

    def _record_unnamed(self, tensor: Tensor, category: str) -> bool:
        """Record a tensor without a variable; returns whether it is new, and nothing but its type is known."""
        if self._ledger.is_known(tensor):
            return False
        node = self._gradients.node(tensor)
        name = f"{UNNAMED} {type(tensor).__name__}" if node is None else f"result of {type(node).__name__}"
        entry = self._ledger.record(tensor, category, name)
        self._model_states.record_gradient(tensor, name)
        return entry is not None and node is None

    def _name_by_referrers(self, unnamed: list[Tensor]) -> None:
        entries = {id(tensor): self._ledger.record(tensor, OTHER, UNNAMED) for tensor in unnamed}
        unnamed.sort(key=lambda tensor: -(entries[id(tensor)] or {"size_bytes": 0})["size_bytes"])
        own = {id(unnamed), id(self._loose), id(self._graph.leaves)}
        for ident, name in name_by_referrers(unnamed, own, self._attributes).items():
            entry = entries[ident]
            if entry is not None:
                entry["owner"] = name

    def _category(self, tensor: Tensor) -> str:
        return ACTIVATION if self._gradients.requires_grad(tensor) else OTHER


def _may_ask_pinned(torch: Torch) -> bool:
    """Whether asking if memory is pinned would neither initialise CUDA nor show up in a profile the program takes."""
    return bool(torch.cuda.is_initialized()) and not torch._C._autograd._profiler_enabled()
