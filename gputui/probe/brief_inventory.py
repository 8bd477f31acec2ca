"""A brief inventory: it takes what has not changed from the last whole inventories, and reads the rest.

It takes optimizer states whose tensors are the same objects, and the tensors that other objects have held for a while;
`Memory.complete` then checks them against the allocator's map. It reads parameters, buffers, gradients, the variables
of running functions, and what the autograd graph saves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gputui.probe.brief_search import LONG, BriefSearch
from gputui.probe.inventory_run import SEARCH_SHARE, InventoryRun
from gputui.probe.kinds import TENSOR, TypeClassifier
from gputui.probe.saved import BRIEF_SHARES
from gputui.probe.torch_types import Tensor
from gputui.probe.variables import NamedValue


class BriefInventory(InventoryRun):
    """Takes one brief inventory, if the optimizers hold the same tensors as before."""

    is_brief = True

    def _new_search(self, classifier: TypeClassifier, *, is_thorough: bool) -> BriefSearch:
        learned = self._memory.lasting.search
        self._nearby = BriefSearch(classifier, self._attributes, learned, is_thorough=is_thorough)
        return self._nearby

    def taken(self) -> dict[str, Any] | None:
        """The fields of the inventory; None where a whole one is needed."""
        lasting = self._memory.lasting
        lasting.begin_brief()
        if not self._at_rest.graph() or self._keepers.have_exceptions():
            return None
        if not all(map(self._is_recalled, self._memory.search.optimizers())):
            lasting.begin_again()
            return None
        self._model_states.record_modules(self._memory.trees.named, self._memory.trees.version)
        self._namespaces = self._keepers.variables(self._all_frames(self._meter), self._memory.search.is_at_rest)
        self._saved.reads_functions, self._saved.shares = False, BRIEF_SHARES
        if not self._names_enough_by(self._find_nearby):
            self._search_on()
        self._attempt(self._collect_lines)
        return None if self._problems else {**self._fields(), "containers": lasting.containers}

    def _is_recalled(self, optimizer: NamedValue) -> bool:
        memory, attributes = self._memory, self._attributes.read(optimizer.value)
        return self._optimizer_states.is_recalled(
            optimizer.name, attributes, memory.trees.version, is_in_parts=memory.is_in_parts
        )

    def _search_on(self) -> None:
        """Search farther for what has no name yet, but not where that was in vain lately, at this place of the program.

        If all of it does not name nearly all memory, the next inventory is a whole one, unless time was lacking.
        """
        lasting, place, is_enough = self._memory.lasting, self._place(), False
        in_functions = [self._find_in_functions] if self._saved.has_functions else []
        in_long = [self._find_in_long] if self._nearby.long.holders else []
        searches = [*in_long, *in_functions, self._find_below, self._find_young]
        ways = [find for find in searches if lasting.may_try((find.__name__, *place))]
        for find in ways:
            if not self._meter.spend():
                return
            before_bytes = self._ledger.device_bytes()
            is_enough = self._names_enough_by(find)
            if is_enough:
                break
            if not self._meter.is_over and self._memory.is_in_vain(before_bytes, self._ledger.device_bytes()):
                lasting.tried_in_vain((find.__name__, *place))
        if self._loose or (ways and not is_enough and not self._meter.is_over):
            lasting.end_brief()

    def _place(self) -> tuple[int, int]:
        """The instruction that the main thread has reached: its innermost frame is the last of all frames."""
        frame = self._frames[-1].frame if self._frames else None
        return (0, 0) if frame is None else (id(frame.f_code), frame.f_lasti)

    def _names_enough_by(self, find: Callable[[], None]) -> bool:
        """Find more tensors and record them; returns whether nearly all memory has a name then."""
        self._attempt(find)
        self._attempt(self._record_saved)
        self._ledger.add_batch(self._memory.lasting.others)
        self._attempt(self._record_variables)
        self._attempt(self._others.record_leaves)
        self._others.record_objects(self._loose)
        return self._memory.is_named_well(self._ledger.device_bytes())

    def _find_nearby(self) -> None:
        meter = self._meter.part(SEARCH_SHARE)
        self._read_remembered()
        self._nearby.search_nearby(self._namespaces, self._memory.lasting.roots, meter)
        self._nearby.take_long(self._to_name, meter, LONG)
        self._record_remembered()

    def _find_in_long(self) -> None:
        self._nearby.take_long(self._to_name, self._meter.part(SEARCH_SHARE))

    def _to_name(self, tensors: list[Tensor]) -> list[Tensor]:
        return self._others.to_name(tensors, self._memory.lasting.others.entries)

    def _find_in_functions(self) -> None:
        self._saved.reads_functions = True

    def _find_below(self) -> None:
        meter = self._meter.part(SEARCH_SHARE)
        self._search.search(self._namespaces, meter)
        self._nearby.take_long(self._to_name, meter, LONG)

    def _find_young(self) -> None:
        self._loose = self._heap.young()[TENSOR]
