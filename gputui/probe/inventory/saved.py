"""Activations: what the autograd graph keeps for the backward pass, and in which node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import compress
from typing import Any

from gputui.probe.names.memory import Memory
from gputui.probe.objects.torch_types import Tensor
from gputui.probe.pace.meter import Meter
from gputui.probe.search.search import VariableSearch
from gputui.probe.search.variables import NamedValue
from gputui.probe.tensors.autograd import INPUTS, Graph, Saved
from gputui.probe.tensors.gradients import GradientReader
from gputui.probe.tensors.model_states import ModelStates
from gputui.probe.tensors.storages import Ledger
from gputui.protocol.categories import ACTIVATION
from gputui.protocol.owners import ARGUMENT, COPY, WORDS, Owner

SHARES = {"variables": 0.4, "containers": 0.6, "kept": 0.5, "objects": 0.5}
"""Which share of the time that is left the graphs of tensors may take, by where the tensors were found."""
GOING_ON_SHARE = 0.8
"""The same if earlier looks have visited a part of a large graph: they have had time for the rest of the work."""
CHECKPOINTED = ("kept by a saved-tensor hook", "", WORDS)


class SavedTensors:
    """Records saved tensors in the ledger. `unnamed`: the addresses of storages with only autograd's name so far."""

    def __init__(
        self,
        graph: Graph,
        ledger: Ledger,
        gradients: GradientReader,
        model_states: ModelStates,
        meter: Meter,
        *,
        is_thorough: bool,
    ) -> None:
        self.unnamed: set[int] = set()
        self._ledger = ledger
        self._gradients = gradients
        self._model_states = model_states
        self._meter = meter
        self._is_thorough = is_thorough
        self._graph = graph
        self._is_cut = False
        self._unread: set[int] = set()
        """The ids of the nodes whose packed objects there was no time to search."""
        self._nodes: dict[int, int] = {}
        """The id of the node that keeps a storage, by its address."""
        self._roots: dict[int, Owner] = {}
        """The variables whose tensors lead to the graph, by the id of the tensor's node."""
        self.variables: Mapping[int, NamedValue] = {}
        """The variables that hold tensors, by the id of the tensor."""
        self.in_variables: set[int] = set()
        """The addresses of saved storages whose tensors variables hold as well."""

    @property
    def is_readable(self) -> bool:
        """Whether this PyTorch shows what the graph keeps."""
        return self._graph.is_readable

    @property
    def has_passed_parts(self) -> bool:
        """Whether parts of graphs were passed over, as earlier looks have read them."""
        return bool(self._graph.passed)

    @property
    def leaves(self) -> Iterable[Tensor]:
        """The parameters and other leaves that the graph leads to."""
        return self._graph.leaves.values()

    def record(self, which: str, tensors: list[Tensor], search: VariableSearch, memory: Memory) -> None:
        """Walk the graphs of these tensors, from where the last look had no more time; `which` is a key of `SHARES`."""
        roots = list(compress(tensors, self._gradients.require_grad(tensors)))
        is_counted = which == "containers" and memory.is_graph_count_due
        meter = self._meter.part(max(SHARES[which], GOING_ON_SHARE * bool(self._graph.known)))
        for (root,) in memory.turns.in_turn(which, roots, meter):
            self._walk(root, search, meter, is_thorough=self._is_thorough or is_counted)
            is_counted = False
        self._is_cut = self._is_cut or not meter.is_complete

    def graph(self) -> dict[str, Any]:
        """What `activations` and `WalkedParts` need, as plain numbers and names: no node is kept."""
        leaves = self._graph.leaves
        return {
            "edges": self._graph.edges,
            "parameters": {
                ident: modules
                for ident, leaf in leaves.items()
                if (modules := self._model_states.modules_of(leaf)) is not None
            },
            "embeddings": self._graph.embeddings,
            "views": self._graph.views,
            "nodes": self._nodes,
            "roots": self._roots,
            "abandoned": self._graph.abandoned,
            "numbers": self._graph.numbers,
            "passed": self._graph.passed,
            "unread": self._unread,
            "is_cut": self._is_cut,
            "in_variables": self.in_variables,
        }

    def _walk(self, root: Tensor, search: VariableSearch, meter: Meter, *, is_thorough: bool) -> None:
        if not self._gradients.at_rest.graph():
            meter.leave_out()
            return
        variable = self.variables.get(id(root))
        tensors = [root]
        while tensors and not meter.is_over:
            for tensor in tensors:
                node = self._gradients.node(tensor)
                if variable is not None and node is not None:
                    self._roots.setdefault(id(node), variable.owner)
                for saved in self._graph.walk(node, meter, is_thorough=is_thorough):
                    self._record_one(saved)
            tensors = self._unpacked(search, meter)

    def _unpacked(self, search: VariableSearch, meter: Meter) -> list[Tensor]:
        """Record the tensors behind the objects that stand in their place in the nodes visited, and return them."""
        tensors = []
        all_packed = self._graph.take_packed()
        for packed in all_packed:
            held = search.held_by(packed.values, meter)
            for named in held:
                self._record_packed(named, id(packed.node))
            tensors += [named.value for named in held]
        if meter.is_over:
            self._unread.update(id(packed.node) for packed in all_packed)
        return tensors

    def _record_packed(self, named: NamedValue, node: int) -> None:
        entry = self._ledger.record(named.value, ACTIVATION, CHECKPOINTED)
        self._mark(entry, CHECKPOINTED, "", node)

    def _record_one(self, saved: Saved) -> None:
        entry = self._ledger.entry_of(saved.tensor)
        if entry is not None:  # it has a better name, or another node keeps it, too
            self._mark(entry, None, saved.operation, id(saved.node))
            return
        owner = (saved.argument, "", ARGUMENT, saved.operation)
        entry = self._ledger.record(saved.tensor, ACTIVATION, owner)
        if entry is not None and saved.operation in INPUTS:
            source = self._model_states.name_of(self._graph.copied_from(saved))
            if source is not None:
                entry["owner"] = (source, "", COPY, entry["dtype"])
        self._mark(entry, owner, saved.operation, id(saved.node))

    def _mark(self, entry: dict[str, Any] | None, owner: Owner | None, operation: str, node: int) -> None:
        if entry is None or entry["category"] != ACTIVATION:
            return
        self._nodes.setdefault(entry["address"], node)
        if not entry["saved_by"]:
            entry["saved_by"] = operation
            if entry["owner"] is owner:
                self.unnamed.add(entry["address"])
