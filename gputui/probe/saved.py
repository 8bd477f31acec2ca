"""Activations: what the autograd graph keeps for the backward pass, in which node, and in which module's forward."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gputui.probe.attributes import AttributeReader
from gputui.probe.autograd import Graph, Saved
from gputui.probe.gradients import GradientReader
from gputui.probe.memory import Memory
from gputui.probe.meter import Meter
from gputui.probe.model_states import ModelStates
from gputui.probe.search import VariableSearch
from gputui.probe.storages import Ledger
from gputui.probe.torch_types import Tensor, Torch
from gputui.probe.variables import NamedValue

ACTIVATION, PARAMETER = "activation", "parameter"
CHECKPOINTED = "kept by a saved-tensor hook"


class SavedTensors:
    """Records them in the ledger. `unnamed` are the addresses of storages that have only autograd's name so far."""

    def __init__(
        self,
        torch: Torch,
        attributes: AttributeReader,
        ledger: Ledger,
        gradients: GradientReader,
        model_states: ModelStates,
        meter: Meter,
    ) -> None:
        self.unnamed: set[int] = set()
        self._ledger = ledger
        self._gradients = gradients
        self._model_states = model_states
        self._meter = meter
        self._graph = Graph(torch, attributes, meter)
        self._nodes: dict[int, int] = {}
        """The id of the node that keeps a storage, by its address."""
        self._roots: dict[int, str] = {}
        """The variables whose tensors lead to the graph, by the id of the tensor's node."""
        self.labels: Mapping[int, str] = {}
        """The variables of tensors, by the id of the tensor."""
        self.in_variables: set[int] = set()
        """The addresses of saved storages that a variable holds as well."""

    @property
    def is_readable(self) -> bool:
        """Whether this PyTorch shows what the graph keeps."""
        return self._graph.is_readable

    @property
    def leaves(self) -> Iterable[Tensor]:
        """The parameters and other leaves that the graph leads to."""
        return self._graph.leaves.values()

    def record(self, first: list[Tensor], others: list[Tensor], search: VariableSearch, memory: Memory) -> None:
        """Walk the graphs of the `first` tensors, then those of the `others`, from where the last look stopped."""
        for tensor in first:
            self._walk(tensor, search)
        start = memory.roots_start % len(others) if others else 0
        for number, tensor in enumerate(others[start:] + others[:start]):
            if self._meter.is_over:
                memory.roots_start = start + max(number - 1, 1)
                return
            self._walk(tensor, search)

    def graph(self) -> dict[str, Any]:
        """What `assign_modules` and `assign_keepers` need: plain numbers and names, no node is kept."""
        leaves = self._graph.leaves
        return {
            "inputs": self._graph.inputs,
            "parameters": {
                ident: modules
                for ident, leaf in leaves.items()
                if (modules := self._model_states.modules_of(leaf)) is not None
            },
            "embeddings": self._graph.embeddings,
            "views": self._graph.views,
            "nodes": self._nodes,
            "roots": self._roots,
            "in_variables": self.in_variables,
        }

    def _walk(self, root: Tensor, search: VariableSearch) -> None:
        variable = self.labels.get(id(root), "")
        tensors = [root]
        while tensors and not self._meter.is_over:
            for tensor in tensors:
                node = self._gradients.node(tensor)
                if variable and node is not None:
                    self._roots.setdefault(id(node), variable)
                for saved in self._graph.walk(node):
                    self._record_one(saved)
            tensors = []
            for packed in self._graph.take_packed():
                held = search.held_by(packed.values, self._meter)
                for named in held:
                    self._record_packed(named, id(packed.node))
                tensors += [named.value for named in held]

    def _record_packed(self, named: NamedValue, node: int) -> None:
        entry = self._ledger.record(named.value, ACTIVATION, CHECKPOINTED)
        self._mark(entry, CHECKPOINTED, "", node)

    def _record_one(self, saved: Saved) -> None:
        owner = f"{saved.argument} of {saved.operation}"
        entry = self._ledger.record(saved.tensor, ACTIVATION, owner)
        if entry is not None and entry["owner"] is owner:
            source = self._model_states.name_of(self._graph.copied_from(saved))
            if source is not None:
                entry["owner"] = f"{source} ({entry['dtype']} copy)"
        self._mark(entry, owner, saved.operation, id(saved.node))

    def _mark(self, entry: dict[str, Any] | None, owner: str, operation: str, node: int) -> None:
        if entry is None or entry["category"] != ACTIVATION:
            return
        self._nodes.setdefault(entry["address"], node)
        if not entry["saved_by"]:
            entry["saved_by"] = operation
            if entry["owner"] is owner:
                self.unnamed.add(entry["address"])
