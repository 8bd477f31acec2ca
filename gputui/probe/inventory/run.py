"""A whole inventory: what variables, modules, optimizers, the autograd graph and Python's objects lead to, in turn."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain, groupby
from operator import attrgetter
from types import FrameType
from typing import Any

from gputui.probe.allocator import known_sizes
from gputui.probe.engines.read import engine_reader
from gputui.probe.inventory import lines
from gputui.probe.inventory.other_tensors import OtherTensors
from gputui.probe.inventory.owned import OwnedReading
from gputui.probe.inventory.remembered_reading import RememberedReading
from gputui.probe.inventory.saved import SavedTensors
from gputui.probe.names import remembered
from gputui.probe.names.memory import SCAN, Memory
from gputui.probe.objects import plain, stacks
from gputui.probe.objects.attributes import AttributeReader
from gputui.probe.objects.frame_variables import can_read_variables
from gputui.probe.objects.heap import FROZEN, TOO_MANY, Heap
from gputui.probe.objects.kinds import EXCEPTION, GENERATOR, MODULE, OPTIMIZER, TENSOR, TypeClassifier
from gputui.probe.objects.threads import AT_ONCE, Threads
from gputui.probe.objects.torch_types import Torch
from gputui.probe.pace.meter import Meter
from gputui.probe.search import containers, other_threads, suspended
from gputui.probe.search.keepers import Keepers
from gputui.probe.search.search import VariableSearch
from gputui.probe.search.variables import NamedValue
from gputui.probe.tensors.autograd import Graph
from gputui.probe.tensors.gradients import AtRest, GradientReader
from gputui.probe.tensors.model_states import ModelStates, OwnedMemory
from gputui.probe.tensors.storages import SCAN_ASKS_PINNED_FROM_BYTES, WALK_ASKS_PINNED_FROM_BYTES, Ledger

WALK = "walk"

SAVED_UNKNOWN = (
    "PyTorch before 2.10 does not show which tensors are saved for the backward pass: they count as unattributed."
)
IN_BACKWARD = (
    "Another thread is in its backward pass, so the tensors saved for it were left out: look again when it has ended."
)
VARIABLES_UNKNOWN = "This Python's local variables cannot be read safely: only global variables were looked at."

UNFORESEEN = (RuntimeError, TypeError, ValueError, AttributeError, LookupError, ReferenceError, AssertionError, Warning)

# What share of the time that is left the search, the modules and a scan may take: the rest is for the tensors.
SEARCH_SHARE = 0.5
OWNED_SHARE = 0.8
"""The same for what models and optimizers own: the rest is for activations and variables."""
SCAN_SHARE = 0.75  # of a scan that was asked for: to list the objects may take half of it
MODULES_SHARE = 0.2
"""The same for the globals of modules that are not on a stack, or installed: few of them lead to a tensor."""
KEPT_SHARE = 0.25
"""The same for other threads and tasks, and for what exceptions and optimizers hold: the variables of the first ones
must not take it away."""


class InventoryRun:
    """Takes one whole inventory; everything it holds is dropped with it."""

    def __init__(self, torch: Torch, method: str, meter: Meter, memory: Memory, threads: Threads) -> None:
        self._threads = threads
        self._torch = torch
        self._method = method
        self._meter = meter
        self._memory = memory
        self._problems: list[str] = []
        self._containers: list[dict[str, Any]] = []
        self._roots = containers.Roots([], [], [], [], [])
        self._collections: list[remembered.Collection] = []
        self._lines: lines.Wanted | None = None
        self._known_sizes: list[dict[str, Any]] = []
        self._attributes = AttributeReader()
        classifier = TypeClassifier(torch)
        self._heap = Heap(classifier)
        self._keepers = Keepers(self._attributes)
        is_scan = method == SCAN
        self._search = VariableSearch(classifier, self._attributes, memory.search, is_thorough=is_scan)
        self._reading = RememberedReading(self._search, classifier, self._attributes)
        self._namespaces: list[stacks.Namespace] = []
        self._loose: list[Any] = []
        """Tensors among Python's objects, whether or not a variable leads to them."""
        self._kept_ids: set[int] = set()
        """The ids of the tensors that only keepers lead to."""
        self._ledger = Ledger(
            torch,
            self._attributes,
            ask_pinned_from_bytes=_ask_pinned_from_bytes(torch, is_scan=is_scan),
            earlier={} if is_scan else memory.entries,
        )
        self._at_rest = AtRest(torch, threads)
        self._gradients = GradientReader(torch, self._at_rest)
        self._model_states = ModelStates(
            torch,
            self._ledger,
            self._gradients,
            meter,
            OwnedMemory(memory.turns) if is_scan else memory.owned,
        )
        self._owned = OwnedReading(
            *(torch, self._search, self._ledger, self._model_states, self._attributes, memory, meter)
        )
        self._saved = SavedTensors(
            Graph(torch, self._attributes, self._at_rest, frozenset() if is_scan else memory.walked.numbers),
            self._ledger,
            self._gradients,
            self._model_states,
            meter,
            is_thorough=is_scan,
        )
        self._others = OtherTensors(
            torch,
            self._ledger,
            self._gradients,
            self._model_states,
            self._saved,
            meter,
            memory.turns,
        )

    def result(self) -> dict[str, Any]:
        self._attempt(self._discover)
        has_all_owned = self._records_owned()
        self._attempt(self._record_remembered)
        graphs_and_variables = self._record_saved, self._record_variables
        for part in graphs_and_variables if has_all_owned else reversed(graphs_and_variables):
            if self._meter.spend():
                self._attempt(part)
        for part in (self._others.record_leaves, self._record_loose):
            if self._meter.spend():
                self._attempt(part)
        self._attempt(self._read_remembered_on)
        self._attempt(self._describe_containers)
        self._attempt(self._collect_lines)
        self._attempt(self._record_known_sizes)
        return self._fields()

    def _records_owned(self) -> bool:
        """Record what models and optimizers own; returns whether there was time for all of it."""
        with self._meter.within(OWNED_SHARE):
            if self._meter.spend():
                self._attempt(self._owned.record_owned)
            return not self._meter.is_over

    def _fields(self) -> dict[str, Any]:
        return {
            "storages": list(self._ledger.entries.values()),
            "how": self._method,
            "problems": self._problems,
            "is_complete": self._meter.is_complete,
            "known_sizes": self._known_sizes,
            "by_address": self._ledger.entries,
            "known": self._reading.known,
            "graph": self._saved.graph(),
            "by_operation": self._saved.unnamed,
            "containers": self._containers,
            "roots": self._roots,
            "collections": self._collections,
            "exceptions": self._keepers.exceptions,
            "lines": self._lines,
        }

    def _attempt(self, part: Callable[[], None]) -> None:
        """Do one part of the inventory. An untested version of PyTorch must cost that part, and not the program."""
        try:
            part()
        except UNFORESEEN as error:
            cause = f"{part.__name__.strip('_')}: {type(error).__name__}: {error}"
            self._problems.append(f"A part of the inventory could not be read ({cause}).")

    def _discover(self) -> None:
        """Find modules, optimizers and tensors: by variable, from earlier looks, and among Python's objects."""
        if not can_read_variables():
            self._problems.append(VARIABLES_UNKNOWN)
        memory = self._memory
        tasks, in_crowds = memory.suspended.stacks_of_tasks(self._meter)
        meter = self._meter.part(SEARCH_SHARE)
        self._search.leave_out(self._keepers.holders())
        first = {ident: tasks.pop(ident) for ident in [ident for ident in tasks if ident not in in_crowds][:AT_ONCE]}
        frames = self._all_frames([stack() for stack in first.values()])
        self._namespaces = [*engine_reader.namespaces(), *self._keepers.variables(frames)]
        self._read_remembered([stack for ident, stack in tasks.items() if ident not in in_crowds])
        self._search.search(self._namespaces, meter)
        memory.search.note_end(is_cut=meter.is_over)
        for ident in in_crowds & self._search.seen.keys():
            del tasks[ident]
        others = {**{ident: frames.copy for ident, frames in self._threads.others.items()}, **tasks}
        meter = self._meter.part(KEPT_SHARE) if meter.is_over else meter
        self._namespaces += memory.other_threads.search(self._search, others, self._keepers.cells, meter)
        self._namespaces += memory.program_modules.search(
            self._search, self._threads.modules(), self._meter.part(MODULES_SHARE)
        )
        groups = self._objects()
        self._loose = groups[TENSOR]
        groups[EXCEPTION] += memory.exceptions()
        self._namespaces += memory.suspended.search(self._search, groups[GENERATOR], self._keepers.cells, meter)
        meter, are_all = self._meter.part(KEPT_SHARE), self._meter.is_complete
        part = meter.part(SEARCH_SHARE)
        kept = self._keepers.values(self._search.found, groups, part, memory.turns, are_all=are_all)
        self._search.explore(kept, meter)
        self._search.explore(memory.search.optimizers(), meter)  # after those: an exception may keep one by now
        self._search.explore([NamedValue(value, plain.type_name(value), "") for value in groups[OPTIMIZER]], meter)
        self._search.optimizers = memory.search.remember_optimizers(self._search.optimizers)
        memory.note_linked(self._search.linked, is_complete=self._meter.is_complete)
        memory.trees.update(self._search.modules, groups[MODULE], self._meter.part(SEARCH_SHARE))
        memory.nameless.note_owners(memory.trees, self._search.optimizers)

    def _read_remembered(self, tasks: list[Callable[[], list[FrameType]]]) -> None:
        """Begin to read the remembered containers. `tasks`: functions that read the stacks of further asyncio tasks."""
        meter, remembered = self._meter.part(SEARCH_SHARE), self._memory.remembered
        for keeper in remembered.keepers():
            is_variable = keeper.holder is None and "[" not in keeper.named.name
            if is_variable and not self._is_in_a_namespace(keeper.named, tasks, meter):
                remembered.forget(keeper.named.value)
            else:
                self._reading.begin(keeper, meter)

    def _is_in_a_namespace(self, named: NamedValue, tasks: list[Callable[[], list[FrameType]]], meter: Meter) -> bool:
        """Whether the variable still has this value, also in threads and modules that this look may not come to."""
        if stacks.have_variable(self._namespaces, named.name, named.where, named.value):
            return True
        if not named.where:
            return self._memory.program_modules.have(named)
        stacks_elsewhere = [*self._threads.others.values(), *(stack() for stack in tasks)]
        frames = [*self._memory.suspended.frames(), *chain.from_iterable(stacks_elsewhere)]
        return other_threads.have(named, frames, self._keepers.cells, meter)

    def _record_remembered(self) -> None:
        self._reading.record(self._ledger, self._others, self._meter.part(SEARCH_SHARE))
        found, known = self._search.linked, self._memory.linked
        rows = [(linked, known[key]) for key, linked in found.items() if key in known]
        self._reading.record_linked(rows, self._ledger, self._others, self._meter.part(SEARCH_SHARE))

    def _read_remembered_on(self) -> None:
        """Give what is left of the time to the remembered containers that no look has read to the end."""
        self._reading.record_unread(self._ledger, self._others, self._meter)

    def _all_frames(self, of_tasks: list[list[FrameType]]) -> list[stacks.RunningFrame]:
        """Those that threads run, that a debugger shows, and that these tasks will go on with."""
        running = self._threads.running
        of_debuggers = suspended.of_debuggers(running, self._attributes)
        seen = {id(frame) for frame, _ in running}
        waiting = [frame for frames in of_tasks for frame in stacks.of_the_program(frames) if id(frame) not in seen]
        return [*running, *of_debuggers, *stacks.with_variables(list(plain.by_id(waiting).values()))]

    def _objects(self) -> dict[int, list[Any]]:
        """Finds among Python's objects, by kind: among all of them for a scan, otherwise among the young ones."""
        if self._method != SCAN:
            return self._heap.young(self._memory.long_generations)
        meter = self._meter.part(SCAN_SHARE)
        if not self._heap.may_visit_all(meter):
            self._problems.append(TOO_MANY)
            self._meter.leave_out()
            return self._heap.young(self._memory.long_generations)
        groups, self._memory.scan_start = self._heap.all(meter, self._memory.scan_start)
        if self._heap.has_frozen:
            self._problems.append(FROZEN)
        return groups

    def _record_saved(self) -> None:
        if not self._saved.is_readable:
            self._problems.append(SAVED_UNKNOWN)
        elif not self._at_rest.graph():
            self._meter.leave_out()
            self._problems.append(IN_BACKWARD)
        else:
            self._walk_graphs()

    def _walk_graphs(self) -> None:
        self._saved.variables = {id(named.value): named for named in self._search.tensors}
        record = partial(self._saved.record, search=self._search, memory=self._memory)
        kept = [named for named in self._search.tensors if named.keeper]
        live = [named for named in self._search.tensors if not named.keeper]
        record("variables", [named.value for named in live if "[" not in named.name])
        record("containers", [named.value for named in live if "[" in named.name])
        for keeper, group in groupby(kept, key=attrgetter("keeper")):
            with self._ledger.kept_by(keeper):
                record("kept", [named.value for named in group])
        self._kept_ids = {id(named.value) for named in kept}
        self._walk_graphs_of_objects()

    def _walk_graphs_of_objects(self) -> None:
        tensors = [tensor for tensor in self._loose if id(tensor) not in self._kept_ids]
        self._saved.record("objects", tensors, search=self._search, memory=self._memory)

    def _record_variables(self) -> None:
        self._others.record_variables("recorded", self._search.tensors)

    def _record_loose(self) -> None:
        self._others.record_objects(self._loose)

    def _describe_containers(self) -> None:
        search = self._search
        if search.containers:
            self._containers = containers.describe(
                search.containers, self._namespaces, self._keepers.cells, self._reading.idents
            )
            self._collections = remembered.collections(search.containers)
            models = [*search.modules, *search.optimizers]
            self._roots = containers.roots(search.tensors, models, search.exceptions, self._gradients.have_graphs)

    def _record_known_sizes(self) -> None:
        ledger, memory = self._ledger, self._memory
        self._known_sizes += known_sizes.known_sizes(self._torch, ledger.devices(), ledger.entries.values())
        self._known_sizes += memory.buckets.known_sizes(self._torch, memory.trees.wrappers)

    def _collect_lines(self) -> None:
        self._lines = lines.wanted(
            self._search.tensors,
            self._namespaces,
            self._gradients.has_graph,
            self._keepers,
            self._meter,
            are_callers_due=self._memory.are_callers_due,
        )


def _ask_pinned_from_bytes(torch: Torch, *, is_scan: bool) -> int | None:
    """From which size on a host storage is asked whether it is pinned; None where that would not go unnoticed.

    Asking must neither initialise CUDA nor show up in a profile that the program takes.
    """
    if not torch.cuda.is_initialized() or torch._C._autograd._profiler_enabled():
        return None
    return SCAN_ASKS_PINNED_FROM_BYTES if is_scan else WALK_ASKS_PINNED_FROM_BYTES
