"""Records what models and optimizers own, part by part: the next look goes on where this one had no more time.

New parameters and the gradients come first. The rest stays where it is, and keeps the name from an earlier look.
"""

from __future__ import annotations

from functools import lru_cache, partial
from itertools import chain, groupby
from operator import itemgetter

from gputui.probe.names.memory import Memory
from gputui.probe.objects.attributes import AttributeReader
from gputui.probe.objects.torch_types import Torch
from gputui.probe.pace.meter import Meter
from gputui.probe.search.modules import KnownModule
from gputui.probe.search.search import VariableSearch
from gputui.probe.search.variables import NamedValue
from gputui.probe.tensors.model_states import ModelStates, Record, parted
from gputui.probe.tensors.optimizer_states import OptimizerStates
from gputui.probe.tensors.storages import Ledger

SHARES, SHARES_OF_KNOWN = (0.5, 1.0), (0.8, 0.3)
"""Which share of the time gradients may take, and which share of the rest what stays where it is. `SHARES_OF_KNOWN`
holds once all that stays has a name."""
NAMES_SHARE = 0.7
"""The share of that time for names: the rest is for other attributes of modules, which seldom lead to memory."""


class OwnedReading:
    """Belongs to one inventory."""

    def __init__(
        self,
        torch: Torch,
        search: VariableSearch,
        ledger: Ledger,
        model_states: ModelStates,
        attributes: AttributeReader,
        memory: Memory,
        meter: Meter,
    ) -> None:
        self._search = search
        self._ledger = ledger
        self._model_states = model_states
        self._optimizer_states = OptimizerStates(torch, ledger, model_states, meter)
        self._attributes = attributes
        self._memory = memory
        self._meter = meter

    def record_owned(self) -> None:
        """Record as much as there is time for."""
        memory = self._memory
        modules = memory.trees.named
        kept = memory.trees.kept(self._search.modules)
        live = [known for known in modules if id(known) not in kept] if kept else modules
        new, staying, gradients = self._model_states.parts_of(live, memory.trees.version)
        of_kept = self._parts_of_kept(kept)
        variables = lru_cache(maxsize=None)(self._variables)  # most optimizers never ask for them
        for optimizer in self._search.optimizers:
            with self._ledger.kept_by(optimizer.keeper, optimizer.where if optimizer.keeper else ""):
                attributes = self._attributes.read(optimizer.value)
                states = self._optimizer_states.parts_of(optimizer.name, attributes, variables)
                (of_kept if optimizer.keeper else staying).extend(map(self._ledger.as_kept_now, states))
        gradients_share, staying_share = SHARES_OF_KNOWN if memory.owned.parts_known >= len(staying) else SHARES
        self._record_in_turn("new", new)
        with self._meter.within(gradients_share):
            self._record_in_turn("gradients", gradients)
        with self._meter.within(staying_share):
            with self._meter.within(NAMES_SHARE):
                memory.owned.parts_known += self._record_in_turn("owned", staying)
            self._record_in_turn("owned by what is kept", of_kept)
            self._record_in_turn("attributes", self._searches_of_attributes(live))

    def _parts_of_kept(self, kept: dict[int, tuple[NamedValue, KnownModule]]) -> list[Record]:
        """The parts that record modules to which only a keeper leads."""
        parts: list[Record] = []
        for root, tree in groupby(kept.values(), key=itemgetter(0)):
            with self._ledger.kept_by(root.keeper, root.where):
                modules = [known for _, known in tree]
                _, staying, gradients = self._model_states.parts_of(modules, self._memory.trees.version)
                searches = self._searches_of_attributes(modules, root)
                parts += map(self._ledger.as_kept_now, chain(staying, gradients, searches))
        return parts

    def _searches_of_attributes(self, modules: list[KnownModule], root: NamedValue | None = None) -> list[Record]:
        """Each part searches attributes of some of these modules, but for parameters, buffers and other modules.

        Modules whose attributes led to nothing are passed over for some looks.
        """
        number = self._memory.search.number
        due = modules if self._search.is_thorough else [known for known in modules if known.rests_until <= number]
        return [partial(self._search_attributes, some, root) for some in parted(due)]

    def _search_attributes(self, modules: list[KnownModule], root: NamedValue | None) -> None:
        where, keeper = (root.where, root.keeper) if root else ("", "")
        for known in modules:
            module = known.reference()
            if module is None or not self._meter.spend() or not self._meter.has_time():
                continue
            if self._search.search_attributes(NamedValue(module, known.name, where, keeper), self._meter):
                known.rests_until = self._memory.search.rests_until(module)

    def _record_in_turn(self, what: str, parts: list[Record]) -> int:
        """Record these parts as far as there is time; returns how many were recorded."""
        number = 0
        for (record,) in self._memory.turns.in_turn(what, parts, self._meter):
            record()
            number += 1
        return number

    def _variables(self) -> dict[int, NamedValue]:
        """The tensors that variables hold, by id."""
        return {id(named.value): named for named in self._search.tensors}
