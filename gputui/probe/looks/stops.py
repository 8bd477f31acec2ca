"""The stops of one look: what each of them reads, and how their results become one look."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from gputui.probe.guards.interpreter_settings import settings
from gputui.probe.guards.originals import perf_counter, sleep, thread_time, wall_clock
from gputui.probe.guards.probe_thread import let_others_run
from gputui.probe.guards.thread_frames import current_frames
from gputui.probe.pace.budget import NOTHING_LEFT_OUT, LookRequest

STOPS_AT_MOST, STOPS_WHILE_MEMORY_CHANGES = 10, 2
"""How many stops a look makes at most for the tensors; the map may get one more. The smaller number holds for automatic
looks once memory was allocated or freed between two stops, as what the first has read may be gone, unless there are
remembered containers to read on: their tensors stay."""
STOPS_TO_READ_ON, ON_REQUEST_MS = 20, 1000.0
"""How many stops a look on request makes where there are such containers, and how long all may take together."""
ALONE_S = 1.0
"""The least switch interval of a stop in the probe's own thread, so that no other thread runs in the middle, even where
a busy machine makes the stop long: the look's references would keep alive what that thread frees."""
LONGEST_TURN_S = 0.02
THREADS_AT_MOST = 16
"""How many waiting threads are woken after a stop."""
_SEGMENTS = 64
"""How many segments of a map are freed between two pauses in which other threads run."""


class LookUnderWay:
    """The request of a look, and what its stops so far have read and cost."""

    def __init__(self, request: LookRequest, *, is_at_top: bool = False, is_passing: bool = False) -> None:
        self.request = request
        self.is_at_top = is_at_top
        self.is_one_stop = is_at_top or is_passing
        """Whether one stop reads both map and inventory: the memory will have changed before a second stop."""
        self.in_main_thread = True
        """Whether the stop under way is in the main thread. During one in the probe's, the main thread may run."""
        self.stamps: list[object] = []
        """The value of `LookRunner.stamp` in each stop."""
        self.reads_on = False
        """Whether remembered containers have elements that no look has read yet."""
        self.plan = NOTHING_LEFT_OUT._replace(method=request.method)
        """The first stop makes it, from the number of blocks that it reads."""
        self.stops = 0
        self.climbs = 0
        """How many stops of this look have climbed from tensors without a name."""
        self.longest_ms = self.cpu_ms = 0.0
        self.before_map: dict[str, Any] | None = None
        """The look with the inventory, once only the map is missing, which then gets the last stop for itself."""
        self.completed: dict[str, Any] | None = None
        """A look on request that is complete but for the climbs that follow it."""

    def add(self, cost: dict[str, float]) -> None:
        """Note the cost of one stop."""
        self.stops += 1
        self.longest_ms = max(self.longest_ms, cost["pause_ms"])
        self.cpu_ms += cost["probe_cpu_ms"]

    @property
    def may_climb(self) -> bool:
        """Whether stops that climb from tensors without a name may come now: before the others of an automatic look."""
        return not self.request.is_urgent and not self.is_at_top and not self.stops

    def stop_ms(self, uncut_ms: float) -> float:
        """How long the stop may be: the only stop of a look may take as long as a call that cannot be cut."""
        pause_ms = self.request.pause_ms
        return max(pause_ms, uncut_ms) if self.is_one_stop and self.in_main_thread else pause_ms

    def is_next_passing(self, *, is_named_well: bool) -> bool:
        """Whether the next automatic look is to be one long stop, as memory changes between the stops of this one."""
        if self.is_one_stop:
            return self.in_main_thread and self.cpu_ms > self.request.pause_ms
        return self.in_main_thread and not is_named_well and not self.reads_on and len(set(self.stamps)) > 1

    @property
    def method(self) -> str:
        """The inventory that the next stop takes: see `take_inventory`."""
        return self.plan.method if self.before_map is None else ""

    @property
    def has_map(self) -> bool:
        """Whether the next stop takes the map."""
        return self.plan.has_map and not (self.plan.is_map_apart and self.before_map is None and not self.is_one_stop)

    @property
    def _stops_at_most(self) -> int:
        if self.request.is_urgent:
            at_most = STOPS_TO_READ_ON if self.reads_on else STOPS_AT_MOST
            return min(at_most, int(ON_REQUEST_MS / self.request.pause_ms))
        has_changed = len(set(self.stamps)) > 1
        return STOPS_WHILE_MEMORY_CHANGES if has_changed and not self.reads_on else STOPS_AT_MOST

    def goes_on_after(self, look: dict[str, Any]) -> bool:
        """Whether another stop follows the one that has taken `look`."""
        if self.before_map is not None or self.is_one_stop:
            return False
        if not is_complete(look) and self.stops < self._stops_at_most:
            return True
        if self.plan.is_map_apart:
            self.before_map = look
            return True
        return False

    def whole(self, look: dict[str, Any]) -> dict[str, Any]:
        """The last stop's look, with what earlier stops have read and the cost of all stops."""
        earlier = self.before_map
        if earlier is not None:
            look["problems"] = [*earlier["problems"], *look["problems"][len(self.plan.problems) :]]
            look["inventory"] = inventory = earlier["inventory"]
            if inventory is not None and earlier["statistics"] != look["statistics"]:
                inventory["is_of_one_moment"] = False
        look["cost"] = {"pause_ms": self.longest_ms, "probe_cpu_ms": self.cpu_ms}
        return look


def empty_look(problems: list[str | dict[str, str]]) -> dict[str, Any]:
    """A look in which nothing has been read yet."""
    return {
        "type": "look",
        "time": wall_clock(),
        "statistics": [],
        "settings": None,
        "map": None,
        "inventory": None,
        "problems": problems,
        "cost": {"pause_ms": 0.0, "probe_cpu_ms": 0.0},
    }


def is_complete(look: dict[str, Any]) -> bool:
    """Whether the look has no inventory, or one that left out no tensors."""
    return look["inventory"] is None or bool(look["inventory"]["is_complete"])


def let_map_go(look: dict[str, Any]) -> None:
    """Free the map of a stop that is not the last, a few segments at a time, so that other threads run."""
    segments = look["map"].segments if look["map"] is not None else []
    while segments:
        del segments[-_SEGMENTS:]
        let_others_run()


def undisturbed(read: Callable[[], None], pause_ms: float, *, in_turn: bool = False) -> dict[str, float]:
    """Call `read` for one stop of at most `pause_ms`, and return the cost of the stop.

    Meanwhile no garbage is collected, no signal handler of the program runs, and no other thread runs Python, except
    one that was already waiting for the interpreter. With `in_turn`, such threads have their turn before the stop.
    """
    began, began_cpu = perf_counter(), thread_time()
    stop = object()
    try:
        try:
            settings.switch_after(max(2 * pause_ms / 1000, ALONE_S * in_turn), stop)
            if in_turn:
                sleep(min(2 * settings.program_s, LONGEST_TURN_S))  # all that wait afterwards use the new interval
                began, began_cpu = perf_counter(), thread_time()
            settings.collect_nothing(stop)
            _without_handlers(read)
        finally:  # twice, as an exception of a signal handler may end the first one half-way
            settings.put_back(stop)
    finally:
        settings.put_back(stop)
    cost = {"pause_ms": (perf_counter() - began) * 1000, "probe_cpu_ms": (thread_time() - began_cpu) * 1000}
    _let_others_run()
    return cost


def _without_handlers(read: Callable[[], None]) -> None:
    """Call `read` while signal handlers of the program wait, if `held_signals` was imported (by `torch_reader`)."""
    held_signals = sys.modules.get("gputui.probe.main_thread.held_signals")
    without_handlers = getattr(held_signals, "without_handlers", None)  # its import may not be over
    if without_handlers is None:
        read()
    else:
        without_handlers(read)


def _let_others_run() -> None:
    """Wake the threads that have waited for the interpreter during a stop.

    They wait for the switch interval that held when they began: up to 200 ms, although the stop is long over. Each
    `sleep` releases the interpreter once, which wakes one of them.
    """
    for _ in range(min(len(current_frames()), THREADS_AT_MOST)):
        sleep(0)
