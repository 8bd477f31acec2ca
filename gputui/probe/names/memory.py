"""What one look keeps for the next: numbers, names and weak references. It keeps nothing of the program's alive."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain, compress
from operator import itemgetter, not_
from typing import Any

from gputui.probe.allocator.blockmap import live_blocks
from gputui.probe.names.climb import Climb
from gputui.probe.names.container_tensors import ContainerTensors, LinkedTensors
from gputui.probe.names.cycles import Block, Nameless
from gputui.probe.names.remembered import Collection, Remembered
from gputui.probe.objects.handles import Handle, objects_of
from gputui.probe.objects.heap import LongGenerations
from gputui.probe.pace.turns import Turns
from gputui.probe.search.keepers import EXCEPTION, EXCEPTIONS, EXCEPTIONS_AT_MOST
from gputui.probe.search.modules import ModuleTrees
from gputui.probe.search.other_threads import OtherThreads
from gputui.probe.search.program_modules import ProgramModules
from gputui.probe.search.rests import Linked, SearchMemory
from gputui.probe.search.suspended import Suspended
from gputui.probe.tensors.autograd import WalkedParts
from gputui.probe.tensors.entries import HOST
from gputui.probe.tensors.model_states import OwnedMemory
from gputui.probe.tensors.reducer_buckets import ReducerBuckets
from gputui.probe.tensors.views import by_address
from gputui.protocol import owners
from gputui.protocol.categories import ACTIVATION, OTHER, OWNED, STAYING, WORKSPACE
from gputui.protocol.owners import HOLDER, KIND, PLACE, UNNAMED, Owner, Where, field

NAMED_WELL = 0.99
"""With this share of the allocated bytes named, no climb begins, and a black box searches no further."""
SCAN = "scan"
"""The method of an inventory of all Python objects."""
WORKSPACES_AT_MOST = 16
"""Up to so many blocks of a workspace's size are taken for workspaces, two for each stream; more are tensors."""
CALLERS_EVERY = 16
"""One in so many looks searches the program's functions for certain calls, such as `empty_cache()`."""
LINKED_AT_MOST = 16
"""How many trees and chains of objects are known."""
COUNT_GRAPH_EVERY = 8
"""One in so many looks visits all operations of a graph that a container keeps, even after its backward pass."""
ENTRIES_AT_MOST = 100_000
"""How many storages are kept if no map says which of them are gone: some 60 MB of host memory."""
ENOUGH_FOUND = 64
"""From so many tensors that a search has found in a part of a long container, the rest is likely to hold as many."""
_BLOCKS_IN_TURN = 4096


class Memory:
    """Belongs to one process; a look changes it in the thread that looks, `complete` in the probe's thread.

    `reads_records`: see `SearchMemory`.
    """

    def __init__(self, *, reads_records: bool = False) -> None:
        self.search = SearchMemory(reads_records=reads_records)
        self.trees = ModuleTrees()
        self.turns = Turns()
        self.owned = OwnedMemory(self.turns)
        self.program_modules = ProgramModules()
        self.suspended = Suspended()
        self.other_threads = OtherThreads(self.turns)
        self.climb = Climb()
        self.remembered = Remembered()
        self.linked: dict[tuple[str, Where], LinkedTensors] = {}
        """What is known of trees and chains of objects, by the name and place of their first object."""
        self.nameless = Nameless()
        self.buckets = ReducerBuckets()
        self.walked = WalkedParts()
        self.long_generations = LongGenerations()
        self.entries: dict[int, dict[str, Any]] = {}
        """The storages of the last looks, by address."""
        self._exceptions: dict[tuple[str, str], list[Handle]] = {}
        """The exceptions that keep storages, by (exception, holder): the two fields by which owners name them."""
        self._freed: set[tuple[str, str]] = set()
        """The keys of `_exceptions` whose exceptions are all gone, as this look has found."""
        self.graph_sizes: dict[tuple[int, str], tuple[int, int]] = {}
        """(operations, graphs) of graphs that a container keeps, by its id and name: see `containers.add_graphs`."""
        self.calls: dict[str, list[str]] = {}
        """The lines of the program that make certain calls, by the fields of `inventory.lines.CALLS`."""
        self.requested_bytes = 0
        """How many bytes were requested for all blocks of the allocator at the look; 0 if that is not known."""
        self.scan_start = 0
        """The number of the Python object with which the next part of a scan begins."""

    @property
    def is_read(self) -> bool:
        """Whether looks have read all remembered containers, trees and chains to the end."""
        return self.remembered.are_read and all(known.is_read for known in self.linked.values())

    def note_linked(self, found: Mapping[tuple[str, Where], Linked], *, is_complete: bool) -> None:
        """Know these trees and chains in later looks; others are forgotten if the search was complete."""
        others = {} if is_complete else {key: known for key, known in self.linked.items() if key not in found}
        self.linked = {**others, **{key: self.linked.get(key) or LinkedTensors() for key in found}}
        for key in list(self.linked)[:-LINKED_AT_MOST]:
            del self.linked[key]

    @property
    def are_callers_due(self) -> bool:
        """Whether the next look should search for certain calls: one or two milliseconds in Trainer."""
        return self.search.number % CALLERS_EVERY == 1

    @property
    def is_graph_count_due(self) -> bool:
        """Whether the next look should count the operations of a graph, even if it saves nothing any more."""
        return self.search.number % COUNT_GRAPH_EVERY == 1

    def begun_again(self) -> Memory:
        """A memory that knows nothing but the storages, so that the next look searches everywhere."""
        memory = Memory(reads_records=self.search.reads_records)
        memory.entries, memory._exceptions = self.entries, self._exceptions
        return memory

    def exceptions(self) -> list[Any]:
        """The exceptions that kept storages in earlier looks and are still there, though nothing may lead to them."""
        handles = list(chain.from_iterable(self._exceptions.values()))
        there = dict(zip(handles, objects_of(handles)))
        known = {key: [handle for handle in own if there[handle] is not None] for key, own in self._exceptions.items()}
        self._freed = {key for key, own in known.items() if not own}
        self._exceptions = {key: own for key, own in known.items() if own}
        return [exception for exception in there.values() if exception is not None]

    def complete(self, inventory: dict[str, Any], described_map: dict[str, Any] | None) -> None:
        """Add what earlier looks found and this one had no time for, where the memory map shows it unchanged.

        A storage counts as unchanged if a live block at its address has the size that was requested for it, and the
        exception that kept it, if one did, is still there. Where an incomplete inventory knows only the operation of
        autograd or the bare tensor, what an exception keeps has its earlier name.
        """
        collections = inventory.pop("collections", [])
        found = inventory["by_address"]
        _add_known(inventory, inventory.pop("known", []))
        self._note_exceptions(inventory)
        earlier = self._read_before(inventory)
        if any(map(_is_staying, map(found.__getitem__, found.keys() - self.entries.keys()))):
            self.owned.parts_known = 0
        by_operation = inventory.pop("by_operation", set())
        kept = {storage["address"]: storage for storage in _of_exceptions(earlier.values())}
        for address in kept.keys() & found.keys() if not inventory["is_complete"] else ():
            has_no_name = address in by_operation or _is_loose(found[address])
            if has_no_name and kept[address]["size_bytes"] == found[address]["size_bytes"]:
                found[address].update({field: kept[address][field] for field in ("owner", "keeper")})
        if described_map is None:
            self.entries = {**earlier, **found} if len(earlier) < ENTRIES_AT_MOST else found
        else:
            self._add_unchanged(inventory, earlier, described_map)
            self.entries = found
        self._remember(collections, inventory)

    def _note_exceptions(self, inventory: dict[str, Any]) -> None:
        """Know the exceptions that keep storages, and forget the storages of those that are gone."""
        read = inventory.pop("exceptions", {})
        for key in set(map(_exception_of, _of_exceptions(inventory["storages"]))).intersection(read):
            self._exceptions[key] = list(dict.fromkeys([*self._exceptions.pop(key, ()), *read[key]]))
        for key in list(self._exceptions)[:-EXCEPTIONS_AT_MOST]:
            del self._exceptions[key]
        for storage in _of_exceptions(self.entries.values()) if self._freed else ():
            if _exception_of(storage) in self._freed:
                del self.entries[storage["address"]]

    def _read_before(self, inventory: dict[str, Any]) -> dict[int, dict[str, Any]]:
        """The storages of earlier looks that this inventory may have left out."""
        has_passed_parts = inventory.pop("has_passed_parts", False)
        if not inventory["is_complete"]:
            return self.entries
        if not has_passed_parts:
            return {}
        return {address: storage for address, storage in self.entries.items() if storage["category"] == ACTIVATION}

    def _remember(self, collections: list[Collection], inventory: dict[str, Any]) -> None:
        """Remember the containers that keep much of the memory, so that it keeps its names when time is short."""
        sizes: dict[tuple[str, Where], list[int]] = defaultdict(list)
        for storage in inventory["storages"] if collections else ():
            if storage["device"] != HOST and storage["category"] not in STAYING:
                sizes[_container_of(storage)].append(storage["size_bytes"])
        for collection in collections:
            name, where = collection.name, collection.where
            found = [*sizes.get((name, where), ()), *sizes.get((name, EXCEPTION), ())]
            is_likely_more = collection.elements > len(found) >= ENOUGH_FOUND
            held = sum(found) * (collection.elements / len(found) if is_likely_more else 1)
            if found and held >= (1 - NAMED_WELL) * self.requested_bytes:
                self.remembered.keep(collection)

    def _add_unchanged(
        self, inventory: dict[str, Any], earlier: dict[int, dict[str, Any]], described_map: dict[str, Any]
    ) -> None:
        """Add those of the earlier storages that the map still shows, and learn which blocks then have no name."""
        storages, found = inventory["storages"], inventory["by_address"]
        known_sizes = {(known["device"], known["size_bytes"]): known["category"] for known in inventory["known_sizes"]}
        allocated_bytes = 0
        unnamed: dict[int, Block] = {}
        loose = {address: storage["size_bytes"] for address, storage in found.items() if _is_loose(storage)}
        workspaces: dict[tuple[int, int], dict[int, Block]] = defaultdict(dict)
        unread = self.other_threads.unread
        for device, addresses, size_bytes, requested_bytes in live_blocks(described_map, _BLOCKS_IN_TURN):
            allocated_bytes += sum(size_bytes)
            is_new = list(map(not_, map(found.__contains__, addresses)))
            for address, requested in compress(zip(addresses, requested_bytes), is_new):
                storage = earlier.get(address)
                is_there = storage is not None and (storage["device"], storage["size_bytes"]) == (device, requested)
                if storage is not None and is_there and (_may_stay(storage) or storage["owner"] in unread):
                    found[address] = storage
                    storages.append(storage)
                elif (device, requested) not in known_sizes:
                    unnamed[address] = Block(device, requested)
                elif known_sizes[device, requested] == WORKSPACE:
                    workspaces[device, requested][address] = Block(device, requested)
        for blocks in workspaces.values():
            if len(blocks) > WORKSPACES_AT_MOST:
                unnamed.update(blocks)
        self._learn_unnamed(inventory, unnamed, loose, allocated_bytes)

    def _learn_unnamed(
        self, inventory: dict[str, Any], unnamed: dict[int, Block], loose: dict[int, int], allocated_bytes: int
    ) -> None:
        """Learn which blocks have no name, and what a climb may begin with.

        `loose`: by address, the sizes of known tensors to which nothing leads.
        """
        self.nameless.blocks = unnamed
        self.note_cycles(inventory)
        is_asked_for = inventory["how"] == SCAN
        sizes = {**loose, **self.nameless.sizes(inventory["storages"] if is_asked_for else [])}
        self.climb.note_unnamed(sizes if sum(sizes.values()) > (1 - NAMED_WELL) * allocated_bytes else {})

    def note_cycles(self, inventory: dict[str, Any]) -> None:
        """Say in an inventory which storages only reference cycles keep, as far as climbs have found cycles."""
        if self.climb.has_cycles:
            storages = inventory["storages"]
            self.nameless.say_kept(storages, self.climb.kept_by_cycles(self.nameless.sizes(storages)))


def _add_known(inventory: dict[str, Any], known: list[ContainerTensors | LinkedTensors]) -> None:
    """Add to an inventory the storages of tensors that remembered containers hold, after the stop.

    If a variable holds one of these tensors, too, its name is not preferred: it may hold another tensor soon. A tensor
    freed since the stop keeps its name in this look if the map still shows its block.
    """
    found = inventory["by_address"]
    for address, entry in by_address(chain.from_iterable(tensors.known() for tensors in known)).items():
        other = found.get(address)
        if other is None or (other["category"] not in OWNED and not other["keeper"]):
            found[address] = entry
    if known:
        inventory["storages"] = list(found.values())


def _is_staying(storage: dict[str, Any]) -> bool:
    return storage["category"] in STAYING and storage["device"] != HOST


def _may_stay(storage: dict[str, Any]) -> bool:
    """Whether a storage keeps its name if this look has not seen it: a variable may hold another tensor by now."""
    return storage["category"] != OTHER or "[" in storage["owner"][0] or bool(storage["keeper"])


def _is_loose(storage: dict[str, Any]) -> bool:
    """Whether a tensor is known, but nothing that leads to it."""
    return storage["category"] == OTHER and field(storage["owner"], KIND) == UNNAMED


def _container_of(storage: dict[str, Any]) -> tuple[str, Where]:
    """The name of the outermost container of a storage, and the place of its variable.

    For what an exception in a container keeps, it is the exception's container, with EXCEPTION in place of the place.
    """
    owner: Owner = storage["owner"]
    if storage["keeper"] == EXCEPTION:
        return field(owner, HOLDER).partition("[")[0], EXCEPTION
    return owner[0].partition("[")[0], field(owner, PLACE)


def _of_exceptions(storages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The storages that exceptions keep."""
    found = list(storages)
    return list(compress(found, map(EXCEPTIONS.__contains__, map(itemgetter("keeper"), found))))


def _exception_of(storage: dict[str, Any]) -> tuple[str, str]:
    """What the owner of a storage says of the exception that keeps it."""
    return field(storage["owner"], owners.EXCEPTION), field(storage["owner"], HOLDER)
