"""The remembered containers in one inventory: what is known of them, and what is read on."""

from __future__ import annotations

from gputui.probe.inventory.other_tensors import OtherTensors
from gputui.probe.names.memory import STAYING
from gputui.probe.names.remembered import RememberedContainer
from gputui.probe.objects import opaque
from gputui.probe.objects.attributes import AttributeReader
from gputui.probe.objects.kinds import MAPPING, SEQUENCE, TypeClassifier
from gputui.probe.objects.torch_types import AnyObject
from gputui.probe.pace.meter import Meter
from gputui.probe.search.records import Found, RecordReader
from gputui.probe.search.search import VariableSearch
from gputui.probe.search.variables import label_of
from gputui.probe.tensors.entries import Entry
from gputui.probe.tensors.storages import Ledger

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
        named, (value, kind) = keeper.named, self._content(keeper.named.value)
        if kind not in (SEQUENCE, MAPPING) or not self._records.are_there(value, kind, named.name):
            self._search.explore([named], meter, may_rest=False)
            keeper.tensors.is_read = True
            return
        self._search.pass_over(named, self._records.length(value, kind), keeper.holder)
        self._keepers.append(keeper)

    def _content(self, value: AnyObject) -> tuple[AnyObject, int]:
        """What is read of a container, and its kind: of the results that a function caches, their dictionary."""
        cache = opaque.cache_of(value) if type(value) is opaque.LRU_CACHE else {}
        return (cache, MAPPING) if cache and not opaque.has_links(cache) else (value, self._classifier.kind_of(value))

    def record(self, ledger: Ledger, others: OtherTensors, meter: Meter) -> None:
        """Record what earlier looks have found in them, and read on."""
        for keeper in self._keepers:
            ledger.add_known(keeper.tensors.known())
        for keeper in self._keepers:
            named, (value, kind) = keeper.named, self._content(keeper.named.value)
            for names, tensors in keeper.tensors.read(value, kind, named.name, self._records, meter):
                others.record_variables("remembered", self._search.take(named, Found(names, tensors, is_whole=True)))
                labels = [label_of(name, named.where) for name in names]
                entries = map(ledger.views.alone, tensors, map(ledger.entry_of, tensors))
                keeper.tensors.note(tensors, list(map(_named, entries, labels)))


def _named(entry: Entry | None, label: str) -> Entry | None:
    """An entry as it is known in later looks, when no variable holds this element of the container any more."""
    if entry is None or entry["category"] in OWNED or entry["owner"] == label:
        return entry
    return {**entry, "owner": label, "keeper": ""}
