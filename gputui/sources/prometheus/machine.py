"""A fleet as a machine for the sampler, whose looks do not wait: a thread asks the server once a scrape interval."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from gputui.model.fleet.attention import FleetAttention
from gputui.model.fleet.fleet import Fleet, Trouble, TroubleKind
from gputui.model.machine.snapshot import Attention, Snapshot
from gputui.sources.again import again_after_s
from gputui.sources.far_machine import FarMachine
from gputui.sources.prometheus.client import ServerError
from gputui.sources.prometheus.reader import Answers, Reader

PATIENT_S = 3.0
"""After how long the screen says that the server has not answered yet."""
DETAILS_WITHIN_S = 0.5
"""How long a look waits for what has just come on screen, so that it is there at once and not at the next look."""
UNWATCHED_AFTER_S = 5.0
RESTS = 4
"""How many times as long as its answers a slow server rests: it works for a screen a fifth of the time at most."""
FIRST_WITHIN_S = 1.0
"""How long the first look waits for the nodes, so that the first picture has them."""


class FleetMachine(FarMachine):
    """A fleet behind a server. `look` returns with the newest answers, and says since when there are none."""

    def __init__(self, answers: Answers, clock: Callable[[], float] = time.time, *, is_demo: bool = False) -> None:
        self._answers, self._clock, self._is_demo = answers, clock, is_demo
        self._reader = Reader(answers, clock)
        self._fleet = self._reader.fleet
        self._trouble: Trouble | None = None
        self._waiting_since: float | None = None
        self._attention = FleetAttention()
        self._wake, self._first, self._answered = threading.Event(), threading.Event(), threading.Event()
        self._is_closed = False
        self._number = 0
        self._interval_s, self._looked_at = 1.0, time.monotonic()
        self._is_unwatched = threading.Event()
        threading.Thread(target=self._run, name="gputui-prometheus", daemon=True).start()

    def look(self, attention: Attention, interval_s: float) -> Snapshot:
        """The newest answers; waits a moment for them at the first look, and when other things come on screen."""
        wanted = attention.fleet or FleetAttention()
        if wanted != self._attention:
            self._attention = wanted
            self._answered.clear()
            self._wake.set()
            self._answered.wait(DETAILS_WITHIN_S)
        if not self._number:
            self._first.wait(FIRST_WITHIN_S)
        self._number += 1
        self._interval_s, self._looked_at = interval_s, time.monotonic()
        if self._is_unwatched.is_set():
            self._is_unwatched.clear()
            self._wake.set()
        now = self._clock()
        fleet = self._fleet._replace(trouble=self._trouble or self._waiting(now))
        return Snapshot(time=now, number=self._number, interval_s=interval_s, is_demo=self._is_demo, fleet=fleet)

    def close(self) -> None:
        """Stop asking, without waiting for an answer."""
        self._is_closed = True
        self._wake.set()
        self._answers.close()

    def _waiting(self, now: float) -> Trouble | None:
        since = self._waiting_since
        if since is None or now - since < PATIENT_S or self._reader.is_at_findings:
            return None
        return Trouble(TroubleKind.SLOW, f"{self._answers.address} has not answered yet.", since)

    def _run(self) -> None:
        due = time.monotonic()
        failures = 0
        while not self._is_closed:
            self._await_looks()
            began = time.monotonic()
            is_due = began >= due
            try:
                self._round(is_due=is_due)
            except ServerError as error:
                self._fail(error)
                failures += 1
                wait_s = again_after_s(failures)
                due = time.monotonic() + wait_s
                self._rest(wait_s)  # another attention does not make it answer
            else:
                failures = 0
                if is_due:
                    ended = time.monotonic()
                    every_s = max(self._fleet.scrape_interval_s, self._interval_s)
                    due = max(began + every_s, ended + RESTS * (ended - began))
                self._wake.wait(max(0.0, due - time.monotonic()))
                self._wake.clear()

    def _await_looks(self) -> None:
        """Wait while nobody looks, as in a pause or while another program has the terminal."""
        while not self._is_closed and not self.is_watched(time.monotonic()):
            self._is_unwatched.set()
            if not self.is_watched(time.monotonic()):  # a look may have come before the event
                self._wake.wait()
                self._wake.clear()

    def is_watched(self, now: float) -> bool:
        """Whether somebody has looked lately, at a time of the monotonic clock."""
        return now - self._looked_at <= 2 * self._interval_s + UNWATCHED_AFTER_S

    def _round(self, *, is_due: bool) -> None:
        self._waiting_since = self._clock()
        try:
            for fleet in self._reader.steps(self._attention, is_due=is_due):
                self._fleet, self._trouble = fleet, None
                self._waiting_since = self._clock()
                if fleet.time:
                    self._first.set()
                if self._is_closed:
                    return
        finally:
            self._waiting_since = None
            self._answered.set()

    def _fail(self, error: ServerError) -> None:
        since = self._trouble.since if self._trouble else self._clock()
        self._trouble = Trouble(error.kind, str(error), since)
        self._first.set()

    def _rest(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self._is_closed and (left := end - time.monotonic()) > 0:
            self._wake.wait(left)
            self._wake.clear()


def fleet_once(answers: Answers, clock: Callable[[], float] = time.time) -> Fleet:
    """The whole fleet, from one round of questions. Raises `ServerError`."""
    try:
        return Reader(answers, clock).everything()
    finally:
        answers.close()
