"""The state of the What-if screen: the cases, their answers, and how far the replay is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from gputui.errors import UsageError
from gputui.explain.whatif.advice import DEFAULT_EXPANDABLE, Replayed
from gputui.explain.whatif.allocator.settings import Device
from gputui.explain.whatif.cases import Answer, Case, LargestBatch, answers, default_cases, largest_of, unchanged
from gputui.explain.whatif.replay.recorded import Recorded, recorded_from
from gputui.explain.whatif.words import by_saving
from gputui.model.attached.trace import RecordedTraces, Trace

Key = tuple[tuple[Trace, ...], int]
Prepare = Callable[[], Recorded]
HandOver = Callable[[Callable[[], None]], object]
"""Called in the replaying thread with a function, which it must run in the application's thread."""


class WhatIfView:
    """The cases of one device's trace. A thread replays them, and hands each answer over to the application's thread.

    `share` (0 to 1) is how much of the replay is done, `problem` why the trace or a case could not be replayed.
    """

    def __init__(self) -> None:
        self._key: Key | None = None
        self._hand_over: HandOver | None = None
        self._queue: list[Case] = []
        self.recorded: Recorded | None = None
        self.baseline: Answer | None = None
        self.answers: list[Answer] = []
        self.waiting: list[Case] = []
        self.largest: LargestBatch | None = None
        """The largest batch that fits, for the newest case that names a batch."""
        self.share = 0.0
        self.problem = ""
        self.is_building = False
        self.is_comparing = False
        """Whether the curves of the case under the cursor are shown."""
        self.is_cheapest_first = False
        """Whether cases stand in the order of their cost, and not of their saving."""

    def follow(
        self,
        recorded: RecordedTraces | None,
        device: int,
        devices: Mapping[int, Device],
        hand_over: HandOver,
    ) -> None:
        """Replay the trace of a device, unless that was done; `devices` is the memory of each device, by index."""
        if recorded is None or (recorded.traces, device) == self._key:
            return
        self._key, self._hand_over = (recorded.traces, device), hand_over
        self.recorded, self.baseline, self.answers, self.problem = None, None, [], ""
        self._queue, self.largest = [], None
        self._start(lambda: recorded_from(recorded.traces, recorded.look, device, devices), ())

    def ask(self, case: Case) -> None:
        """Replay one more case, after those whose replay runs now."""
        self.problem = ""
        if self.is_building:
            self._queue.append(case)
            self.waiting.append(case)
        elif self.recorded is not None:
            prepared = self.recorded
            self._start(lambda: prepared, (case,))

    def rows(self) -> list[Answer]:
        """The recorded settings, then the other cases: the smallest peak first, or the cheapest case first."""
        others = self.answers if self.is_cheapest_first else by_saving(self.answers)
        return [self.baseline, *others] if self.baseline else []

    @property
    def replayed(self) -> Replayed | None:
        """The replay with expandable segments beside the recorded settings, None until both are answered."""
        expandable = next((answer for answer in self.answers if answer.case == DEFAULT_EXPANDABLE), None)
        return Replayed(self.baseline, expandable) if self.baseline and expandable else None

    def _start(self, prepare: Prepare, cases: Sequence[Case]) -> None:
        """Replay `cases` in a thread; where they are empty, the recorded settings and the default cases."""
        assert self._key is not None
        self.is_building, self.share = True, 0.0
        work = partial(self._work, self._key, prepare, cases)
        threading.Thread(target=work, name="gputui-whatif", daemon=True).start()

    def _work(self, key: Key, prepare: Prepare, cases: Sequence[Case]) -> None:
        hand_over = self._hand_over
        assert hand_over is not None
        try:
            recorded = prepare()
            cases = cases or (unchanged(recorded), *default_cases(recorded))
            hand_over(partial(self._begin, key, recorded, cases))
            for step in answers(recorded, cases):
                if self._key != key:
                    return  # the screen follows another trace by now
                hand_over(partial(self._take, key, step))
            largest = largest_of(recorded, cases)
        except UsageError as error:
            hand_over(partial(self._refuse, key, str(error)))
        else:
            hand_over(partial(self._end, key, largest))

    def _refuse(self, key: Key, problem: str) -> None:
        if key == self._key:
            self.problem, self.waiting = problem, []
            self._go_on()

    def _begin(self, key: Key, recorded: Recorded, cases: Sequence[Case]) -> None:
        if key == self._key:
            self.recorded, self.waiting = recorded, [*cases, *self._queue]

    def _take(self, key: Key, step: float | Answer) -> None:
        if key != self._key:
            return
        if not isinstance(step, Answer):
            self.share = step
            return
        self.waiting = self.waiting[1:]
        if self.baseline is None:
            self.baseline = step
        else:
            self.answers = [answer for answer in self.answers if answer.case != step.case] + [step]

    def _end(self, key: Key, largest: LargestBatch | None) -> None:
        if key != self._key:
            return
        self.largest = largest or self.largest
        self._go_on()

    def _go_on(self) -> None:
        """Replay the cases that were asked for meanwhile."""
        self.is_building = False
        if self._queue and self.recorded is not None:
            prepared, cases = self.recorded, tuple(self._queue)
            self._queue = []
            self._start(lambda: prepared, cases)
