"""The remembered containers in one inventory: what is known of them, and what is read on."""

from __future__ import annotations

from gputui.probe.attributes import AttributeReader
from gputui.probe.batches import Batch, Entry
from gputui.probe.kinds import MAPPING, SEQUENCE, TypeClassifier
from gputui.probe.memory import STAYING
from gputui.probe.meter import Meter
from gputui.probe.other_tensors import OtherTensors
from gputui.probe.records import Found, RecordReader
from gputui.probe.remembered import RememberedContainer
from gputui.probe.search import VariableSearch
from gputui.probe.storages import Ledger
from gputui.probe.variables import label_of

OWNED = STAYING | {"gradient"}
"""The categories of what models and optimizers own, whatever else holds it."""


class RememberedReading:
    """Belongs to one inventory."""

    def __init__(self, search: VariableSearch, classifier: TypeClassifier, attributes: AttributeReader) -> None:
        self._search = search
        self._classifier = classifier
        self._records = RecordReader(classifier, attributes)
        self._keepers: list[RememberedContainer] = []

    @property
    def idents(self) -> frozenset[int]:
        """The ids of the containers, of which this look may have read nothing new."""
        return frozenset(id(keeper.named.value) for keeper in self._keepers)

    def begin(self, keeper: RememberedContainer, meter: Meter) -> None:
        """Leave a container to `record` if its elements or theirs are tensors; otherwise search it now."""
        named, kind = keeper.named, self._classifier.kind_of(keeper.named.value)
        if kind not in (SEQUENCE, MAPPING) or not self._records.are_there(named.value, kind, named.name):
            self._search.explore([named], meter, may_rest=False)
            keeper.tensors.is_read = True
            return
        self._search.pass_over(named, self._records.length(named.value, kind), keeper.holder)
        self._keepers.append(keeper)

    def record(self, ledger: Ledger, others: OtherTensors, meter: Meter) -> None:
        """Record what earlier looks have found in them, and read on."""
        for keeper in self._keepers:
            ledger.add_batch(Batch([], [], keeper.tensors.known()))
        for keeper in self._keepers:
            named, kind = keeper.named, self._classifier.kind_of(keeper.named.value)
            for names, tensors in keeper.tensors.read(named.value, kind, named.name, self._records, meter):
                others.record_variables(self._search.take(named, Found(names, tensors, is_whole=True)), 0)
                labels = [label_of(name, named.where) for name in names]
                keeper.tensors.note(tensors, list(map(_named, map(ledger.entry_of, tensors), labels)))


def _named(entry: Entry | None, label: str) -> Entry | None:
    """An entry as it is known in later looks, when no variable holds this element of the container any more."""
    if entry is None or entry["category"] in OWNED or entry["owner"] == label:
        return entry
    return {**entry, "owner": label, "keeper": ""}
