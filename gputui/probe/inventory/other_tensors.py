"""Tensors that belong to no model and no graph: those of variables, and those found only among Python's objects."""

from __future__ import annotations

from itertools import compress, groupby, repeat
from math import prod
from operator import and_, itemgetter, not_, or_

from gputui.probe.inventory.saved import SavedTensors
from gputui.probe.objects.plain import type_name
from gputui.probe.objects.torch_types import Tensor, Torch
from gputui.probe.pace.meter import Meter
from gputui.probe.pace.turns import Turns
from gputui.probe.search.variables import NamedValue
from gputui.probe.tensors.cache_names import of_caches
from gputui.probe.tensors.gradients import GradientReader
from gputui.probe.tensors.model_states import ModelStates
from gputui.probe.tensors.storages import Ledger
from gputui.protocol.categories import ACTIVATION, KV_CACHE, OPTIMIZER_STATE, OTHER, PARAMETER, STAYING
from gputui.protocol.owners import RESULT, UNNAMED

STATE_OF_PARAMETER = "state[Parameter]"
"""Part of the names of what optimizers of other libraries, such as fastai's, keep for each parameter."""
RECOGNISED_PER_STEP = 8
"""How many tensors whose storages have an owner are passed over in one step of the meter."""
AT_ONCE = 64
"""How many tensors of variables are recorded between two questions whether there is time left."""
RECORDED_PER_STEP = 2
"""How many tensors that need no gradient are recorded in one step of the meter."""


class OtherTensors:
    """Records these tensors in the ledger, after those of models and of the graph."""

    def __init__(
        self,
        torch: Torch,
        ledger: Ledger,
        gradients: GradientReader,
        model_states: ModelStates,
        saved: SavedTensors,
        meter: Meter,
        turns: Turns,
    ) -> None:
        self._parameter = torch.nn.Parameter
        self._ledger = ledger
        self._gradients = gradients
        self._model_states = model_states
        self._saved = saved
        self._meter = meter
        self._turns = turns

    @property
    def is_cut(self) -> bool:
        """Whether there was no time for something that was to be recorded."""
        return self._meter.is_over

    def record_variables(self, what: str, tensors: list[NamedValue]) -> None:
        """Record the tensors of variables, then those that only a keeper has; `what`: see `Turns`."""
        for named in _of_caches(tensors):
            if not self._gradients.requires_grad(named.value):
                with self._ledger.kept_by(named.keeper):
                    self._ledger.record(named.value, KV_CACHE, named.owner)
        live = [named for named in tensors if not named.keeper]
        for some in self._turns.in_turn(what, live, self._meter, AT_ONCE):
            self._record_some(some)
        for named in tensors:
            if named.keeper and self._meter.spend():
                with self._ledger.kept_by(named.keeper):
                    self._record_variable(named)

    def record_leaves(self) -> None:
        """Record parameters to which only the graph leads, because nothing that was searched holds their modules."""
        for leaf in self._saved.leaves:
            if not self._meter.spend():
                return
            is_parameter = issubclass(type(leaf), self._parameter)
            entry = self._ledger.entry_of(leaf) if is_parameter else None
            if entry is not None and entry["address"] in self._saved.unnamed:  # named by its operation
                self._saved.unnamed.discard(entry["address"])
                self._ledger.drop(entry)
            self._record_unnamed(leaf, PARAMETER if is_parameter else ACTIVATION)

    def record_objects(self, tensors: list[Tensor]) -> None:
        """Record tensors found only among Python's objects: on the interpreter's stack, or led to by no variable.

        If not all variables and graphs were read, a tensor of earlier looks is left out: `Memory` adds it by its name.
        """
        if not self._meter.spend(1 + len(tensors) // RECOGNISED_PER_STEP):
            return
        unknown = self._ledger.without_owner(tensors)
        if not self._meter.is_complete or self._saved.has_passed_parts:
            unknown = [tensor for tensor in unknown if not self._ledger.category_before(tensor)]
        for tensor in unknown:
            if self._meter.spend():
                self._record_unnamed(tensor, self._category(tensor))

    def _record_some(self, tensors: list[NamedValue]) -> None:
        """Record these tensors of variables, as far as there is time."""
        tensors = self._without_known(tensors)
        if not self._meter.is_complete:
            tensors = [named for named in tensors if self._may_be_new(named.value)]
        values = [named.value for named in tensors]
        need_none = map(not_, self._gradients.require_grad(values))
        names = [named.name for named in tensors]
        are_others = map(not_, map(str.__contains__, names, repeat(STATE_OF_PARAMETER)))
        are_simple = map(and_, map(and_, need_none, are_others), self._ledger.are_plain(values))
        for is_simple, part in groupby(zip(are_simple, tensors), itemgetter(0)):  # of two names, the first counts
            left = [named for _, named in part]
            if is_simple:
                if not self._meter.spend(1 + len(left) // RECORDED_PER_STEP):
                    return
                left = self._to_record(left)
                owners = [named.owner for named in left]
                numbers = self._ledger.record_plain([named.value for named in left], OTHER, owners)
                left = [left[number] for number in numbers]
            for named in left:
                if not self._meter.spend():
                    return
                self._record_variable(named)

    def _to_record(self, tensors: list[NamedValue]) -> list[NamedValue]:
        """Those of these simple tensors whose storages have no owner, or only autograd's name for it."""
        values = [named.value for named in tensors]
        addresses = self._ledger.addresses(values)
        if addresses is None:
            return tensors
        self._ledger.views.add(self._ledger.entries, values, addresses)
        is_known = map(self._ledger.entries.__contains__, addresses)
        is_unnamed = map(self._saved.unnamed.__contains__, addresses)
        return list(compress(tensors, map(or_, map(not_, is_known), is_unnamed)))

    def _may_be_new(self, tensor: Tensor) -> bool:
        return self._ledger.category_before(tensor) not in STAYING

    def _without_known(self, tensors: list[NamedValue]) -> list[NamedValue]:
        """These tensors without the parameters of models, which are recorded with their gradients."""
        is_parameter = map(self._model_states.is_named, map(id, [named.value for named in tensors]))
        return list(compress(tensors, map(not_, is_parameter)))

    def _record_variable(self, named: NamedValue) -> None:
        """Record a tensor of a variable: it is no activation if a graph has saved only a part of it, as of a batch."""
        category = self._category(named.value, named.name)
        entry = self._ledger.record(named.value, category, named.owner)
        if entry is not None and entry["address"] in self._saved.unnamed:
            self._saved.unnamed.discard(entry["address"])
            self._saved.in_variables.add(entry["address"])
            is_of_part = category == OTHER and prod(entry["shape"]) < prod(self._ledger.sizes(named.value))
            self._ledger.rename(entry, named.value, named.owner, OTHER if is_of_part else "")
        self._model_states.record_gradient(named.value, named.owner)

    def _record_unnamed(self, tensor: Tensor, category: str) -> None:
        """Record a tensor without a variable, unless its storage has an owner."""
        if self._ledger.entry_of(tensor) is not None:
            return
        node = self._gradients.node(tensor)
        owner = (type_name(tensor), "", UNNAMED) if node is None else (type_name(node), "", RESULT)
        self._ledger.record(tensor, category, owner)
        self._model_states.record_gradient(tensor, owner)

    def _category(self, tensor: Tensor, name: str = "") -> str:
        if STATE_OF_PARAMETER in name:
            return OPTIMIZER_STATE
        if issubclass(type(tensor), self._parameter):
            return PARAMETER
        return ACTIVATION if self._gradients.requires_grad(tensor) else OTHER


def _of_caches(tensors: list[NamedValue]) -> list[NamedValue]:
    """The tensors whose names are of caches of keys and values."""
    return [tensors[number] for number in of_caches([named.name for named in tensors])]
