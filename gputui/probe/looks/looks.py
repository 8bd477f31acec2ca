"""Takes looks: statistics, block map and inventory, read in one or more bounded stops, with what the look cost."""

from __future__ import annotations

import sys
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gputui.probe.guards import boundary
from gputui.probe.guards.originals import sleep, thread_time, wall_clock
from gputui.probe.looks.stops import LookUnderWay, empty_look, is_complete, let_map_go, undisturbed
from gputui.probe.main_thread import process
from gputui.probe.main_thread.activity import Watch
from gputui.probe.main_thread.calls import MainThread, MainThreadCall
from gputui.probe.pace.budget import RECORDS, RESERVE, RESERVE_MS, Budget, LookRequest, Plan, on_request
from gputui.probe.pace.meter import Meter
from gputui.probe.pace.pace import Pace
from gputui.protocol import pauses

if TYPE_CHECKING:
    from gputui.probe.looks.counters import CounterReader
    from gputui.probe.looks.torch_reader import TorchReader

SERVERS = ("vllm", "sglang", "uvicorn", "hypercorn", "gunicorn", "flask", "aiohttp.web", "ray.serve", "litserve")
"""Modules of programs that serve requests: calls that cannot be cut may take no longer there than any other stop."""
CLIMBS_AT_ONCE = 16
"""How many stops of an automatic look climb (go from unnamed tensors to their referrers, one level in a stop) while
somebody who has just attached waits for names; later one stop does."""
CLIMBS_ON_REQUEST = 32
"""How many stops climb after a look that somebody has asked for."""
TRIES = 3
"""How often a stop in the probe's own thread is taken at most, if the program does not hold still meanwhile."""
IN_BACKWARD_S = 3.0
"""How long a look waits for the end of a backward pass, during which the graph would be left out."""
_INTERRUPTED = "A signal handler of the program interrupted the look: ask for another one."
_NO_TORCH = "The program has not imported PyTorch yet: there is nothing to look at."


class LookRunner:
    """Takes one look at a time. All but the stops happens in the probe's thread."""

    def __init__(self, main_thread: MainThread, counters: CounterReader) -> None:
        self._call: MainThreadCall[dict[str, Any]] = MainThreadCall(main_thread)
        self._counters = counters
        self._reader: TorchReader | None = None
        self._budget = Budget()
        self._taking: LookUnderWay | None = None
        self._pace = _new_pace()
        self._is_passing = False
        """Whether the next automatic look is to be one stop: see `LookUnderWay.is_next_passing`."""
        self._is_cut = False
        """Whether the last look named too little because it had no time for all tensors."""
        self._uncut_ms = 0.0
        """How long a call that cannot be cut may stop the program in the last look: see `uncut_ms`."""

    @property
    def is_under_way(self) -> bool:
        """Whether a look has begun that `finished` has not returned."""
        return self._taking is not None

    @property
    def deadline(self) -> float | None:
        """When (`perf_counter`) to ask `finished` again at the latest, None if no look is under way."""
        return self._call.deadline

    def begin(self, request: LookRequest, *, is_at_top: bool = False) -> None:
        """Begin a look in the main thread, or in the probe's own if that is absent; `is_at_top`: near a step's top."""
        self._torch_with_reader()
        self._uncut_ms = uncut_ms(request.pause_ms)
        is_passing = self._is_passing and not request.is_urgent and self._uncut_ms > request.pause_ms
        self._taking = LookUnderWay(request, is_at_top=is_at_top, is_passing=is_passing)
        self._begin_stop(self._taking)

    def finished(self) -> dict[str, Any] | None:
        """The look, once, when it is taken; then another may begin. None while it is under way.

        Beside the fields of `model.attached.target.Look` it has `method` and `is_urgent` of its request, and `stamp`.
        """
        taking = self._taking
        look = self._call.finished(lambda: self._take_here(taking)) if taking else None
        if taking is None or look is None:
            return None
        if look.pop("is_dropped", False):
            self._taking = None  # the viewer's request stays: an empty look would take its map away
            return None
        taking.add(look["cost"])
        if taking.completed is not None:
            return self._climbed_on_request(taking, taking.completed)
        if "climb_goes_on" in look:
            taking.climbs += 1 if look["climb_goes_on"] else CLIMBS_AT_ONCE
            taking.stops = 0
            self._begin_stop(taking)
            return None
        self._learn(look, taking.request.pause_ms)
        taking.stamps.append(self.stamp(look["statistics"]))
        taking.reads_on = self._reader is not None and self._reader.reads_on
        if taking.goes_on_after(look):
            if self._reader is not None:
                self._reader.keep_part(look)
            let_map_go(look)
            self._begin_stop(taking)
            return None
        return self._climbed_on_request(taking, self._completed(taking, look))

    def _climbed_on_request(self, taking: LookUnderWay, look: dict[str, Any]) -> dict[str, Any] | None:
        """Climb from the unnamed memory of a look on request, a level in a stop; returns the look once that is over."""
        reader, request = self._reader, taking.request
        is_due = reader is not None and request.is_urgent and reader.may_climb(self._uncut_ms)
        if is_due and taking.climbs < CLIMBS_ON_REQUEST:
            taking.climbs += 1
            taking.completed = look
            self._begin_stop(taking)
            return None
        self._taking = None
        if taking.completed is not None and reader is not None:
            look["cost"] = {"pause_ms": taking.longest_ms, "probe_cpu_ms": taking.cpu_ms}
            reader.note_cycles(look)
        return look

    def hurry(self) -> None:
        """Let the look under way climb no further: somebody waits for another one."""
        if self._taking is not None:
            self._taking.climbs = CLIMBS_ON_REQUEST

    def leave(self) -> None:
        """Drop the look under way and what is kept between looks: the last viewer has gone."""
        self._call.leave()
        self._pace = _new_pace()
        self._taking = None
        if self._reader is not None:
            self._reader.forget()

    def why_not_automatic(self) -> str:
        """A sentence why no automatic looks are taken now; "" if they are."""
        torch = self._torch_with_reader()
        return RECORDS if torch is not None and _program_records(torch) else ""

    @property
    def is_automatic_due(self) -> bool:
        """Whether the pace of automatic looks allows one now."""
        return self._pace.is_due

    @property
    def is_eager(self) -> bool:
        """Whether somebody who has just attached waits for names: then no look waits for the top of a step."""
        return self._pace.is_eager

    def account(self, cost_s: float) -> None:
        """Note what an automatic look has cost, in seconds: it sets when the next one is due."""
        self._pace.account(cost_s, goes_on=self._may_find_more or self._is_cut)

    def with_automatic(self, statistics: dict[str, Any]) -> dict[str, Any]:
        """These counters with all other fields of `model.attached.target.Statistics` but the swings."""
        problems = list(dict.fromkeys([*boundary.problems(), *statistics["problems"]]))
        torch = self._torch_with_reader()
        if torch is None:
            return {**statistics, "problems": problems}
        from gputui.probe.allocator.memory_history import memory_history

        why_not = self.why_not_automatic()
        return {
            **statistics,
            "problems": [*([on_request(why_not)] if why_not else []), *problems],
            "automatic": None if why_not else "walk",
            "history": memory_history.recorder(torch),
        }

    def stamp(self, statistics: list[dict[str, Any]] | None = None) -> object:
        """A value that changes whenever memory is allocated or freed, from these statistics or else the newest."""
        if self._torch_with_reader() is None:
            return None
        from gputui.probe.looks.torch_reader import stamp_of

        return stamp_of(self._counters.newest if statistics is None else statistics)

    @property
    def _may_find_more(self) -> bool:
        return self._reader is not None and self._reader.may_find_more(self._uncut_ms)

    def _torch_with_reader(self) -> ModuleType | None:
        """PyTorch, if the program has it; imports `torch_reader` then, so that the main thread need not wait for it."""
        torch = process.loaded_torch()
        if torch is not None and self._reader is None:
            from gputui.probe.looks.torch_reader import torch_reader

            self._reader = torch_reader
        return torch

    def _begin_stop(self, taking: LookUnderWay) -> None:
        take = partial(self._take, taking, in_main_thread=True)
        self._call.begin(take, taking.request.wait_s, _failed, in_backward_s=IN_BACKWARD_S)

    def _completed(self, taking: LookUnderWay, last: dict[str, Any]) -> dict[str, Any]:
        look = taking.whole(last)
        self._describe_map(look)
        look["method"], look["is_urgent"] = taking.request.method, taking.request.is_urgent
        if self._reader is not None:
            self._reader.note_search(look, self._uncut_ms)
            is_named_well = self._reader.is_named_well(look)
            self._is_cut = not is_named_well and not is_complete(look)
            if not taking.request.is_urgent:
                self._is_passing = taking.is_next_passing(is_named_well=is_named_well)
        is_done = is_complete(look) and not self._may_find_more
        look["stamp"] = self.stamp(look["statistics"]) if is_done else None
        return look

    def _plan(self, statistics: list[dict[str, Any]], request: LookRequest) -> Plan:
        return self._budget.plan(
            request.method,
            _blocks(statistics),
            request.pause_ms,
            is_urgent=request.is_urgent,
            uncut_ms=self._uncut_ms,
        )

    def _learn(self, look: dict[str, Any], pause_ms: float) -> None:
        reader = self._reader
        if reader is not None and look["map"] is not None:  # without the walk for users of pools, which is rare
            took_ms, by_clock_ms = reader.map_ms, reader.map_by_clock_ms
            walked_ms = reader.pools.walked_ms
            blocks = _blocks(look["statistics"])
            self._budget.learn_map(blocks, took_ms - walked_ms, pause_ms, by_clock_ms=by_clock_ms - walked_ms)

    def _describe_map(self, look: dict[str, Any]) -> None:
        began_cpu = thread_time()
        if self._reader is not None:
            self._reader.describe(look)
        look["cost"]["probe_cpu_ms"] += (thread_time() - began_cpu) * 1000

    def _take(self, taking: LookUnderWay, *, in_main_thread: bool) -> dict[str, Any]:
        """Take one stop in the calling thread."""
        look = empty_look([])
        taking.in_main_thread = in_main_thread
        read = partial(self._read, taking, look)
        longest_ms = max(taking.request.pause_ms, self._uncut_ms)
        look["cost"] = undisturbed(read, longest_ms, in_turn=not in_main_thread)
        return look

    def _read(self, taking: LookUnderWay, look: dict[str, Any]) -> None:
        stop_ms = taking.stop_ms(self._uncut_ms)
        meter = Meter((stop_ms - min(RESERVE * stop_ms, RESERVE_MS)) / 1000)  # it runs while the map is read, too
        torch = process.loaded_torch()
        if torch is None or self._reader is None:
            look["problems"].append(_NO_TORCH)
        elif not taking.request.is_urgent and _program_records(torch):  # it began after this look was asked for
            look["is_dropped"] = True
        else:
            from gputui.probe.looks.torch_reader import device_statistics

            if taking.completed is not None or self._may_climb(taking):
                look["climb_goes_on"] = self._reader.climb(torch, look["problems"])
                return
            look["statistics"] = device_statistics(torch, look["problems"])
            if taking.stops == 0:
                taking.plan = self._plan(look["statistics"], taking.request)
            look["problems"] += taking.plan.problems
            self._reader.read(
                torch,
                taking.method,
                look,
                meter,
                may_walk=taking.plan.may_walk,
                has_map=taking.has_map,
                in_main_thread=taking.in_main_thread,
            )

    def _may_climb(self, taking: LookUnderWay) -> bool:
        """Whether this stop of an automatic look climbs; such stops come before all others of the look."""
        climbs = CLIMBS_AT_ONCE if self._pace.is_eager else 1
        if not taking.may_climb or taking.climbs >= climbs or self._reader is None:
            return False
        return self._reader.may_climb(self._uncut_ms)

    def _take_here(self, taking: LookUnderWay) -> dict[str, Any]:
        """Take one stop in this thread, as the main thread is absent; again, up to `TRIES`, if something has moved."""
        tries = 0
        while True:
            tries += 1
            watch = Watch()
            look = self._take(taking, in_main_thread=False)
            has_moved = watch.has_moved()
            inventory = look["inventory"]
            if inventory is None or tries == TRIES or not (has_moved or not inventory["is_of_one_moment"]):
                break
            taking.add(look["cost"])
            if self._reader is not None:
                self._reader.keep_part(look)
            let_map_go(look)
            sleep(look["cost"]["pause_ms"] / 1000)
        if inventory is not None and has_moved:
            inventory["is_of_one_moment"] = False
        return look


def _new_pace() -> Pace:
    return Pace(wall_clock=wall_clock if process.is_rank() else None)


def uncut_ms(pause_ms: float) -> float:
    """How long a call that cannot be cut may stop the program, where other stops take `pause_ms`.

    That is `pauses.LONGEST_S`, or `pause_ms` if the viewer wants shorter stops than usual or the program serves.
    """
    is_strict = pause_ms < pauses.AUTOMATIC_S * 1000 or any(map(sys.modules.__contains__, SERVERS))
    return pause_ms if is_strict else pauses.LONGEST_S * 1000


def _program_records(torch: ModuleType) -> bool:
    from gputui.probe.allocator.memory_history import memory_history

    return memory_history.recorder(torch) == "program"


def _failed(failure: str) -> dict[str, Any]:
    return empty_look([failure or _INTERRUPTED])


def _blocks(statistics: list[dict[str, Any]]) -> int:
    return sum(device["blocks"] for device in statistics)
