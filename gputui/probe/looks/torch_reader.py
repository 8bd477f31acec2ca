"""Reads statistics, block map and inventory; a part that cannot be read becomes a sentence among the problems.

Import this only after the program has imported PyTorch, and with it `threading`: that module takes the thread that
first imports it for the main thread.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from gputui.probe.allocator import allocator, blockmap
from gputui.probe.allocator.pools import PoolWatch
from gputui.probe.engines.read import engine_reader
from gputui.probe.guards.boundary import is_of_the_program
from gputui.probe.guards.originals import perf_counter, thread_time, wall_clock
from gputui.probe.inventory import inventory, lines
from gputui.probe.inventory.activations import assign_keepers, assign_modules
from gputui.probe.inventory.run import WALK
from gputui.probe.main_thread import held_signals, process  # held_signals: see looks/stops.py  # noqa: F401
from gputui.probe.names.climb_stops import ClimbStops
from gputui.probe.names.memory import NAMED_WELL, SCAN, Memory
from gputui.probe.objects import stacks
from gputui.probe.objects.threads import threads_now
from gputui.probe.pace.meter import Meter
from gputui.probe.search.containers import add_graphs
from gputui.probe.tensors.autograd import Inputs, can_read_saved

SEARCHES, LEAST_S = 10, 0.01
"""How many more searches `read_unnamed` makes, and how many seconds must be left for one."""
NO_CLIMB = (
    "To find what holds the rest takes calls that would stop the program for about {:.0f} ms each, and {:.0f} ms are"
    " allowed: `--pause` sets how long, and a scan on request may find it, too."
)
THE_MAP = "The allocator's map"
EARLIER = "Earlier tensors"
BACKWARD_ENDANGERED = (
    "A thread was in its backward pass, during which PyTorch before 2.10 does not allow another thread to read tensors:"
    " look again when it has ended."
)
FREEING = (
    "The program was freeing an object at that moment, in which tensors cannot be read safely: look again to see them."
)
MANY_THREADS = (
    "The program has so many threads that to see whether one of them is freeing an object, in which tensors cannot be"
    " read safely, takes longer than a stop may: `--pause` sets how long that is."
)


class TorchReader:
    """Reads looks, and keeps what a look has learned for the next one. `reads_records`: see `SearchMemory`."""

    def __init__(self, *, reads_records: bool = False) -> None:
        self.pools = PoolWatch()
        self._memory = Memory(reads_records=reads_records)
        self._unsettled: list[dict[str, Any]] = []
        """The inventories from which `read_unnamed` went on: their graphs are evaluated after the stop."""
        self._climbing = ClimbStops()
        self.map_ms = 0.0
        """The processor time of reading map and settings in the last stop, in the thread that read them."""
        self.map_by_clock_ms = 0.0
        """The same time by the clock, including the statistics if they were read then."""

    def read(
        self,
        torch: ModuleType,
        method: str,
        look: dict[str, Any],
        meter: Meter,
        *,
        may_walk: bool,
        has_map: bool = True,
        in_main_thread: bool = True,
    ) -> None:
        """Fill in the fields of `model.attached.target.Look`; the map stays raw until `describe` is called.

        Statistics that the look has already are kept. `method` is the inventory's (see `take_inventory`), or "" for
        none. The inventory leaves out what `meter` does not allow, and the map is left out without `has_map`.
        `may_walk`: see `PoolWatch.look`. `in_main_thread` is false in the probe's own thread, beside which threads of
        the program may run.
        """
        problems = look["problems"]
        self.read_map(torch, look, has_map=has_map, may_walk=may_walk)
        self._memory.requested_bytes = _requested_bytes(look)
        threads = threads_now() if method else None
        are_freeing = threads.are_freeing(meter) if threads is not None else False
        if are_freeing is None:
            problems.append(MANY_THREADS)
        elif are_freeing:
            problems.append(FREEING)
        elif method and not in_main_thread and _is_backward_endangered(torch):
            problems.append(BACKWARD_ENDANGERED)
        elif method:
            look["inventory"] = attempt(
                "Tensors", problems, inventory.take_inventory, torch, method, meter, self._memory, threads
            )
        if look["inventory"] is not None:
            after = device_statistics(torch, problems)
            look["inventory"]["is_of_one_moment"] = _is_one_moment(look["statistics"], after)

    @property
    def reads_on(self) -> bool:
        """Whether remembered containers have elements that no look has read yet."""
        return not self._memory.is_read

    def may_find_more(self, limit_ms: float) -> bool:
        """Whether more looks will name more memory."""
        return self.reads_on or self.may_climb(limit_ms)

    def may_climb(self, limit_ms: float) -> bool:
        """Whether some memory has no name, and one stop that climbs from it takes at most `limit_ms`.

        First, looks have to read all remembered containers, as those may hold that memory.
        """
        return self._memory.is_read and self._climbing.is_due(self._memory, limit_ms)

    def note_search(self, look: dict[str, Any], limit_ms: float) -> None:
        """Note in a look whether more looks may name more memory, with a problem if that only takes too long a call."""
        memory = self._memory
        if look["inventory"] is None:
            return
        inventory = look["inventory"]
        inventory["may_find_more"] = not memory.is_read or memory.climb.unnamed_bytes > 0
        if inventory["is_complete"] and inventory["may_find_more"] and not self.may_find_more(limit_ms):
            look["problems"].append(NO_CLIMB.format(self._climbing.call_ms, limit_ms))

    def climb(self, torch: ModuleType, problems: list[Any]) -> bool:
        """Climb one level from tensors without a name; returns whether the climb goes on."""
        attempt("The way up from tensors", problems, self._climbing.climb, torch, self._memory)
        return self._memory.climb.is_under_way

    def note_cycles(self, look: dict[str, Any]) -> None:
        """Note in a finished look which memory is kept by cycles alone, as the climbs after it have found."""
        if look["inventory"] is not None:
            self._memory.note_cycles(look["inventory"])
            look["inventory"]["may_find_more"] = self._memory.climb.unnamed_bytes > 0

    def read_map(
        self, torch: ModuleType, look: dict[str, Any], *, has_map: bool, may_walk: bool, has_traces: bool = False
    ) -> None:
        """Fill in the map (with the events of a recorded history if `has_traces`), and missing statistics and settings.

        The other arguments are those of `read`.
        """
        problems = look["problems"]
        began_by_clock = perf_counter()
        look["statistics"] = look["statistics"] or device_statistics(torch, problems)
        began = thread_time()
        if process.has_cuda(torch):
            if has_map:
                look["map"] = attempt(THE_MAP, problems, self._take_map, torch, may_walk, has_traces)
            if look["settings"] is None:
                look["settings"] = _copied(look["map"].settings) if look["map"] else _settings(torch, problems)
        self.map_ms = (thread_time() - began) * 1000
        self.map_by_clock_ms = (perf_counter() - began_by_clock) * 1000

    def read_unnamed(self, torch: ModuleType, look: dict[str, Any], ends_at: float) -> None:
        """Take more inventories until they name nearly everything, or until `ends_at` (`perf_counter`).

        Once walks are complete or name no more, it scans all Python objects, with a memory of the storages alone.
        """
        method, last_share = WALK, -1.0
        for _ in range(SEARCHES):
            first, left_s = look["inventory"], ends_at - perf_counter()
            if first is None or left_s < LEAST_S:
                return
            share = self._named_share(look)
            is_done = first["is_complete"] or share <= last_share
            if share >= NAMED_WELL or (is_done and method == SCAN):
                return
            self._unsettled.append(first)
            attempt(EARLIER, look["problems"], self._memory.complete, first, None)
            if is_done:
                self._memory, method = self._memory.begun_again(), SCAN
            last_share = share
            arguments = torch, method, Meter(left_s, clock=perf_counter), self._memory
            again = attempt("More tensors", look["problems"], inventory.take_inventory, *arguments)
            if again is None:
                return
            look["inventory"] = {**again, "is_of_one_moment": first["is_of_one_moment"]}

    def is_named_well(self, look: dict[str, Any]) -> bool:
        """Whether nearly all requested bytes in a look have a name, or it has no inventory."""
        return look["inventory"] is None or self._named_share(look) >= NAMED_WELL

    def _named_share(self, look: dict[str, Any]) -> float:
        storages = {**self._memory.entries, **{entry["address"]: entry for entry in look["inventory"]["storages"]}}
        named_bytes = sum(storage["size_bytes"] for storage in storages.values() if storage["device"] >= 0)
        requested_bytes = _requested_bytes(look)
        return named_bytes / requested_bytes if requested_bytes else 1.0

    def describe(self, look: dict[str, Any]) -> None:
        """Turn what was read into the fields of `Look`, after the stop."""
        if look["map"] is not None:
            look["map"] = attempt(THE_MAP, look["problems"], blockmap.describe_map, look["map"])
        self._settle_inventory(look, look["map"])

    def keep_part(self, look: dict[str, Any]) -> None:
        """Keep what one stop has found for the next stop of the same look."""
        self._settle_inventory(look, None)

    def _settle_inventory(self, look: dict[str, Any], described_map: dict[str, Any] | None) -> None:
        inventory, problems = look["inventory"], look["problems"]
        parts, self._unsettled = self._unsettled, []
        for part in parts:
            self._settle_graph(part, problems)
        if inventory is not None:
            self._settle_graph(inventory, problems)
            attempt(EARLIER, problems, self._memory.complete, inventory, described_map)

    def _settle_graph(self, inventory: dict[str, Any], problems: list[str]) -> None:
        if "graph" not in inventory:
            return
        graph, storages = inventory.pop("graph"), inventory["by_address"]
        inputs = Inputs(graph["edges"])
        inventory["has_passed_parts"] = bool(graph["passed"])
        attempt("Parts of the graph", problems, self._memory.walked.note, graph, inputs)
        attempt("Modules of activations", problems, assign_modules, storages, graph, inputs)
        operations = attempt("Keepers of activations", problems, assign_keepers, storages, graph, inputs)
        described = inventory["containers"], inventory.pop("roots"), operations or {}, self._memory.graph_sizes
        inventory["containers"] = attempt("Containers", problems, add_graphs, *described) or []
        self._settle_lines(inventory, inventory.pop("lines"), problems)

    def _settle_lines(self, inventory: dict[str, Any], wanted: lines.Wanted | None, problems: list[str]) -> None:
        if wanted is not None:
            attempt("Lines of code", problems, lines.name_assignments, inventory["storages"], wanted)
            self._memory.calls.update(attempt("Lines of code", problems, lines.lines_of_calls, wanted) or {})
        inventory.update({field: list(self._memory.calls.get(field, ())) for field in lines.CALLS})

    def forget(self) -> None:
        """Drop what was kept for the next look: nobody looks any more."""
        self._memory = Memory()

    def _take_map(self, torch: ModuleType, may_walk: bool, has_traces: bool) -> blockmap.RawMap | None:  # noqa: FBT001 (see `attempt`)
        raw_map = allocator.take_map(torch, self.pools, may_walk=may_walk, has_traces=has_traces)
        if raw_map is not None:
            blockmap.compact_in_stop(raw_map)
        return raw_map


torch_reader = TorchReader()
"""The instance for all viewers of this process; a black box makes one of its own."""


def statistics_fields(torch: ModuleType, problems: list[str]) -> dict[str, Any]:
    """The fields of `model.attached.target.Statistics` that are read from PyTorch and an inference engine."""
    devices, pinned_bytes = device_statistics(torch, problems), None
    if process.has_cuda(torch):
        pinned_bytes = attempt("Pinned memory", problems, allocator.read_pinned_bytes, torch)
    serving = attempt("The inference engine", problems, engine_reader.read)
    fields = {"time": wall_clock(), "devices": devices, "pinned_bytes": pinned_bytes, "problems": problems}
    return {**fields, "serving": serving}


def device_statistics(torch: ModuleType, problems: list[str]) -> list[dict[str, Any]]:
    """The fields of `model.attached.allocator.AllocatorStatistics` for each device; [] before CUDA is initialised."""
    if not process.has_cuda(torch):
        return []
    return attempt("The allocator's statistics", problems, allocator.read_statistics, torch) or []


def stamp_of(statistics: list[dict[str, Any]]) -> object:
    """A value that changes whenever memory is allocated or freed; None without counters, so that any look is due."""
    return tuple(device["generation"] for device in statistics) or None


def attempt(what: str, problems: list[str], function: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401
    """What `function` returns; if it raises, None, with a sentence added to the problems.

    Exceptions of the program's own signal handlers are passed on.
    """
    try:
        return function(*arguments)
    except Exception as error:  # an error of PyTorch's internals must not end somebody's training job
        if is_of_the_program(error):
            raise
        problems.append(f"{what} could not be read: {type(error).__name__}: {error}"[:1000])
        return None


def _requested_bytes(look: dict[str, Any]) -> int:
    return sum(device["requested_bytes"] for device in look["statistics"])


def _is_backward_endangered(torch: ModuleType) -> bool:
    """Whether reading tensors in this thread could invalidate tensors of a backward pass in another thread.

    Before 2.10, PyTorch makes a Python object for a tensor without a lock that its C++ threads would respect.
    """
    return not can_read_saved(torch) and stacks.another_thread_is_in_backward()


def _settings(torch: ModuleType, problems: list[str]) -> Any:  # noqa: ANN401
    return attempt("The allocator's settings", problems, allocator.read_settings, torch)


def _copied(settings: dict[str, Any]) -> dict[str, Any]:
    """A copy with lists of its own: encoding a message empties the lists in it, and the map has the same settings."""
    return {name: list(value) if isinstance(value, list) else value for name, value in settings.items()}


def _is_one_moment(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> bool:
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    return has_gil and stamp_of(before) == stamp_of(after)
