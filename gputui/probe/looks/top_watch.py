"""Finds the moment for a look near the top of a step.

Python runs ahead of the GPU and waits for it mostly where a step has freed its memory, and there the main thread would
come to a look. The probe's own thread therefore reads the counters beside it, many times a second, to ask for the look
at a better moment. While PyTorch allocates memory from the driver, such a read would stop all of Python until the
driver is done. So it reads only if the counters have shown no driver calls for a while.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from gputui.probe.guards.interpreter_settings import settings
from gputui.probe.guards.originals import perf_counter, sleep, thread_time
from gputui.probe.looks.swing import DeviceReads
from gputui.probe.looks.top_moments import TopMoments
from gputui.probe.main_thread import process
from gputui.probe.main_thread.activity import is_in_backward

READ_EVERY_S, REST_S, RESTS_AFTER = 0.02, 0.2, 100
"""The seconds between two reads while the counters change, and after RESTS_AFTER reads that found no change."""
SHARE_OF_TIME, SHARE_OF_WAIT = 0.003, 0.1
"""The share of the time that reads may take, and while a look waits: fewer reads with many devices or threads."""
STEADY_S = 2.0
"""For how long PyTorch must have allocated nothing from the driver, and freed nothing, before this thread reads."""
NEAR_TOP, AT_TOP = 0.93, 0.985
"""What share of the highest allocation is near enough to the top; and what share is needed while one of `top_moments`
is awaited, which may come nearer."""
AWAITED_STEPS, AWAITED_S = 1.5, 1.2
"""For how many steps one of `top_moments` is awaited, and for how long at least."""
LOOKS_ANYWHERE = 3
"""Every third look is taken wherever the program is."""
WAIT_STEPS, LEAST_WAIT_S, LONGEST_WAIT_S = 3.0, 3.0, 20.0
"""For how many steps an automatic look waits for the top, and for how long at least and at most."""
LEARN_S = 1.5
"""For how long the first looks do not take a high moment for the top, so that a step can be measured first."""
POLL_S = 0.001
TURN_S = 0.0005
"""The switch interval while a look waits for the top: a tenth of Python's default."""
READS_A_STEP, QUICKEST_S, SLOWEST_S, CLOSE_S = 100, 0.002, 0.005, 0.0005
"""How often the counters are read in a step while a look waits; the least and the longest time between two reads; and
the least time right before the top. Python may finish a forward pass in milliseconds, however long the GPU takes."""


class TopWatch:
    """Reads the counters of all devices that are used, and finds the moment for a look; `wake` wakes its thread."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._moments = TopMoments(wake)
        self._swings: dict[int, DeviceReads] = {}
        self._driver_calls: dict[int, tuple[int, int]] = {}
        """How often PyTorch had allocated from the driver and freed, by device, when the main thread read it."""
        self._changed_at = 0.0
        """When (`perf_counter`) `_driver_calls` were last found changed."""
        self._is_steady = False
        self._next_at = 0.0
        self._unchanged = 0
        self._waits_until = self._learns_until = self._awaits_until = 0.0
        """Until when (`perf_counter`) a look waits for the top, for a step to be measured, and for one of
        `top_moments`; `_waits_until` is 0.0 if no look waits."""
        self.is_at_top = False
        """Whether a look that waits may begin now, as memory is near its top."""
        self._number = 0
        """How many looks have begun."""
        self._spent_s = 0.0

    @property
    def _is_waiting(self) -> bool:
        """Whether a look waits for the top. Its time runs out even if nobody wants the look any more."""
        return perf_counter() < self._waits_until

    def note(self, devices: list[dict[str, Any]]) -> None:
        """Note counters that the main thread has read."""
        calls = {each["device"]: (each["num_device_alloc"], each["num_device_free"]) for each in devices}
        now = perf_counter()
        self._changed_at = now if calls != self._driver_calls else self._changed_at
        self._is_steady, self._driver_calls = bool(calls) and now - self._changed_at >= STEADY_S, calls
        for device in devices:
            if device["allocated_bytes"]:
                self._swings.setdefault(device["device"], DeviceReads())

    def fields(self) -> list[dict[str, Any]]:
        """The fields of `model.attached.target.Swing` for each device that was read lately."""
        return [swing.fields(device) for device, swing in self._swings.items() if swing.is_fresh]

    def wait(
        self,
        waiting: Any,  # noqa: ANN401 (`poll` has no public type)
        longest_s: float,
        note_wait: Callable[[float], None],
        *,
        is_alone: bool,
    ) -> list[tuple[int, int]]:
        """Wait for what is registered with `waiting`, and read the counters meanwhile; returns what is ready.

        Also ends when a look that waits for the top may begin. `note_wait` gets the time at which each part of the wait
        began. While a look waits, and the probe has asked nothing of the main thread (`is_alone`), threads hand over
        the interpreter sooner: on a busy machine a forward pass would be over before this thread gets a turn.
        """
        self._moments.let_go()
        if not self._is_waiting:
            self._moments.leave()
        if not self._is_waiting or not is_alone or settings.program_s <= TURN_S:
            return self._wait(waiting, longest_s, note_wait)
        settings.switch_after(TURN_S, self)
        try:
            return self._wait(waiting, longest_s, note_wait)
        finally:
            settings.put_back(self)

    def _wait(
        self,
        waiting: Any,  # noqa: ANN401
        longest_s: float,
        note_wait: Callable[[float], None],
    ) -> list[tuple[int, int]]:
        ends_at = perf_counter() + longest_s
        while True:
            began = perf_counter()
            until = min(ends_at, self._next_at) if self._is_steady else ends_at
            pause_s = max(0.0, until - began)
            if pause_s < POLL_S:  # shorter than `poll` can wait
                sleep(pause_s)
            ready: list[tuple[int, int]] = waiting.poll(int(pause_s / POLL_S))
            note_wait(began)
            self._read()
            if ready or perf_counter() >= ends_at or self.is_at_top:
                return ready

    def _read(self) -> None:
        """Read the counters if it is time to."""
        if not self._is_steady or (perf_counter() < self._next_at and not self._moments.is_held):
            return
        began, torch = thread_time(), process.loaded_torch()
        before = [swing.allocated_bytes for swing in self._swings.values()]
        self._is_steady = torch is not None and process.has_cuda(torch) and self._read_all(torch)
        self._changed_at = self._changed_at if self._is_steady else perf_counter()
        is_changed = before != [swing.allocated_bytes for swing in self._swings.values()]
        self._unchanged = 0 if is_changed else self._unchanged + 1
        self.is_at_top = self._is_waiting and self._has_come()
        now, cost_s = perf_counter(), thread_time() - began
        self._spent_s += cost_s if self._is_waiting else 0.0
        self._next_at = now + self._distance_s(cost_s)

    def _read_all(self, torch: ModuleType) -> bool:
        """Read each device; returns whether there were no driver calls since the main thread's last read."""
        is_steady, is_held = True, self._moments.is_held
        for device, swing in self._swings.items():
            try:
                counters = torch._C._cuda_memoryStats(device)
            except RuntimeError:  # another allocator has taken the place of PyTorch's
                return False
            allocated_bytes, requests = counters["allocated_bytes"]["all"], counters["allocation"]["all"]
            swing.add(allocated_bytes["current"], requests["allocated"], is_held=is_held)
            calls = counters.get("num_device_alloc", 0), counters.get("num_device_free", 0)
            is_steady = is_steady and calls == self._driver_calls.get(device)
        return is_steady

    def is_moment(self, *, is_eager: bool) -> bool:
        """Whether an automatic look may begin: two of three wait for the top of a step, if it comes in time.

        While somebody waits for names (`is_eager`), looks wait for the top only if the length of a step is known.
        """
        if not self._waits_until:
            widest = self._widest()
            if self._number % LOOKS_ANYWHERE == 0 or not self._is_steady or widest is None:
                return True
            if is_eager and not widest.has_steps:
                return True
            now = perf_counter()
            wait_s = min(max(widest.step_s * WAIT_STEPS, LEAST_WAIT_S), LONGEST_WAIT_S)
            self._waits_until, self._learns_until, self._next_at = now + wait_s, now + LEARN_S, 0.0
            self._awaits_until = now + max(widest.step_s * AWAITED_STEPS, AWAITED_S)
            self._moments.watch()
        return self.is_at_top or perf_counter() >= self._waits_until or not self._is_steady

    def begin(self) -> bool:
        """Note that a look begins; returns whether memory is near its top."""
        is_at_top, self.is_at_top, self._waits_until = self.is_at_top, False, 0.0
        self._moments.leave()
        self._number += 1
        return is_at_top

    def close(self) -> None:
        """Let the main thread go: no look waits any more."""
        self._moments.leave()
        self._moments.let_go()

    def spent_s(self) -> float:
        """What waiting for the top has cost since the last call, in seconds."""
        spent_s, self._spent_s = self._spent_s, 0.0
        return spent_s + self._moments.spent_s()

    def _widest(self) -> DeviceReads | None:
        wide = [swing for swing in self._swings.values() if swing.whole.is_wide]
        return max(wide, key=lambda swing: swing.whole.highest - swing.whole.lowest, default=None)

    @property
    def _part(self) -> float:
        """What share of the highest must be allocated for a look now."""
        is_awaited = self._moments.is_watching and perf_counter() < self._awaits_until
        return AT_TOP if is_awaited and not self._moments.is_held else NEAR_TOP

    def _has_come(self) -> bool:
        """Whether the device with the widest range is near its top, and no backward pass is under way.

        Until `_learns_until`, that is so only once the length of a step is known.
        """
        widest, is_held = self._widest(), self._moments.is_held
        if widest is None or widest.missing_bytes(self._part) or (is_in_backward() and not is_held):
            return False
        return widest.has_steps or perf_counter() > self._learns_until

    def _distance_s(self, cost_s: float) -> float:
        """The time until the next read, in seconds; `cost_s` is the processor time of the last one."""
        if not self._is_waiting:
            return max(REST_S if self._unchanged > RESTS_AFTER else READ_EVERY_S, cost_s / SHARE_OF_TIME)
        widest = self._widest()
        distance_s = min(max(widest.step_s / READS_A_STEP if widest else 0.0, QUICKEST_S), SLOWEST_S)
        if widest is not None and widest.rises_by_s > 0:
            distance_s = min(distance_s, widest.missing_bytes(self._part) / widest.rises_by_s / 2)
        return max(CLOSE_S, distance_s, cost_s / SHARE_OF_WAIT)
