"""A daemon thread that talks to one probe and turns its messages into moments."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from queue import Empty, SimpleQueue

from gputui.explain.drivers import driver_facts
from gputui.explain.look_gain import is_well_named
from gputui.explain.probe_state import ProbeState, after, moment_among
from gputui.model.moment import Surroundings, TargetMoment
from gputui.model.reading import Problem, ProblemKind
from gputui.model.snapshot import Snapshot
from gputui.model.target import ActionName, ActionResult, Disconnect, Greeting, Look, Statistics
from gputui.protocol.pauses import AUTOMATIC_S
from gputui.sources.files.recording.recorder import NO_KEEPER, Keeper
from gputui.sources.probe.client import Message, ProbeClient, ProbeError
from gputui.sources.procfs import ProcFs

Listener = Callable[[TargetMoment], None]

SHORTEST_S = 0.25
"""The shortest interval at which screens ask a program for its counters."""

LOOKS_ARE_OFF = Problem("Automatic looks are off (look_pause).", ProblemKind.LOOK_ON_REQUEST)

Request = Callable[[ProbeClient], None]

NAME_GROWTH_EVERY_S = 60.0
"""How often a look may be spent on that, beyond those that come by themselves."""

PATIENCE_S = 0.2
"""How long a screen's request may wait for the thread, which meanwhile waits for a message."""


class TargetFeed:
    """Reads one probe until the process ends or `stop`; its methods can be called from any thread and return at once.

    `snapshot` returns the machine's newest snapshot, with NVML's figures for the process; `keeper` records everything.
    `look_pause_s` is how long an automatic look may stop the program at a time; None: there are no automatic looks.
    """

    def __init__(
        self,
        client: ProbeClient,
        snapshot: Callable[[], Snapshot],
        listener: Listener,
        interval_s: float = 1.0,
        keeper: Keeper = NO_KEEPER,
        look_pause_s: float | None = AUTOMATIC_S,
    ) -> None:
        self._client = client
        self._snapshot = snapshot
        self._listener = listener
        self._interval_s = interval_s
        self._requests: SimpleQueue[Request] = SimpleQueue()
        self._is_stopped = False
        self._is_waiting = False
        """Whether a look on the next change has been asked for and is not here yet."""
        self._automatic: str | None = "walk"
        self._look_pause_s = look_pause_s
        self._named_growth_at = 0.0
        """When a look was last spent to name what grows (epoch seconds)."""
        self._keeper = keeper
        keeper.listen_to(client)
        self._state = ProbeState(client.greeting)
        self._thread = threading.Thread(target=self._run, name=f"gputui-feed-{client.greeting.pid}", daemon=True)

    @property
    def pid(self) -> int:
        """The process's PID."""
        return self._client.greeting.pid

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> None:
        """End without waiting."""
        self._is_stopped = True

    def look(self, how: str = "walk") -> None:
        """Ask for a look now; "scan" goes through all Python objects."""
        self._requests.put(lambda client: client.ask_look(how))

    def mark(self, label: str) -> None:
        """Name this moment, for all viewers."""
        self._requests.put(lambda client: client.mark(label))

    def run_action(self, name: ActionName) -> None:
        """Ask for an action in the program; moments show that it is pending, and its outcome."""
        self._requests.put(lambda client: self._ask_action(client, name))

    def _run(self) -> None:
        try:
            with self._client as client:
                client.subscribe(self._interval_s)
                if self._look_pause_s is not None:
                    client.ask_look(pause_s=self._look_pause_s)  # all of it at once, and no longer stops for that
                while not self._is_stopped:
                    self._send_requests(client)
                    self._take(client, client.receive(PATIENCE_S))
        except ProbeError as error:
            self._deliver(ended=error.disconnect)

    def _send_requests(self, client: ProbeClient) -> None:
        while True:
            try:
                request = self._requests.get_nowait()
            except Empty:
                return
            request(client)

    def _take(self, client: ProbeClient, message: Message | None) -> None:
        if message is None:
            return
        self._state = after(self._state, message)
        if isinstance(message, Statistics):
            self._automatic = message.automatic
            self._name_growth(client, message.time)
            self._await_change(client)
            self._deliver()
        elif isinstance(message, Look):
            self._is_waiting = False
            self._await_change(client)
            self._deliver()
        elif isinstance(message, ActionResult):
            self._take_result(client, message)

    def _name_growth(self, client: ProbeClient, time_s: float) -> None:
        """Where the counters show growth that looks have not named, look at everything, in stops as short as usual."""
        is_due = time_s - self._named_growth_at >= NAME_GROWTH_EVERY_S
        if self._look_pause_s is not None and self._automatic is not None and is_due and self._state.wants_look:
            self._named_growth_at = time_s
            client.ask_look(pause_s=self._look_pause_s)

    def _ask_action(self, client: ProbeClient, name: ActionName) -> None:
        if self._state.pending_action is None:
            client.ask_action(name)
            self._state = replace(self._state, pending_action=name, outcome=None)
            self._deliver()

    def _take_result(self, client: ProbeClient, result: ActionResult) -> None:
        if not result.reason and result.name is not ActionName.RECORD_STEP:  # that has brought a look
            client.ask_look()  # the last look is out of date, and the next automatic one may take long
        self._deliver()

    def _await_change(self, client: ProbeClient) -> None:
        if not self._is_waiting and self._automatic is not None and self._look_pause_s is not None:
            self._is_waiting = True
            client.ask_look("walk", when="changed", pause_s=self._look_pause_s)

    def _deliver(self, ended: Disconnect | None = None) -> None:
        surroundings = read_surroundings(self._state.greeting, self._snapshot(), self.pid, ended)
        self._keeper.note_surroundings(self.pid, surroundings)
        moment = moment_among(self._state, surroundings)
        if self._look_pause_s is None:
            moment = replace(moment, problems=(*moment.problems, LOOKS_ARE_OFF))
        if self._keeper.problem:
            moment = replace(moment, problems=(*moment.problems, Problem(self._keeper.problem)))
        if not self._is_stopped:
            self._listener(moment)


def read_surroundings(
    greeting: Greeting, snapshot: Snapshot, pid: int, ended: Disconnect | None = None
) -> Surroundings:
    """What the viewer itself reads about a process now."""
    processes = snapshot.processes.processes
    return Surroundings(
        time=time.time(),
        drivers=tuple(driver_facts(greeting, snapshot.devices, pid).items()),
        rss_bytes=ProcFs().resident_bytes(pid),
        workers=next((process.workers for process in processes if process.pid == pid), None),
        ended=ended,
    )


def one_moment(client: ProbeClient, snapshot: Snapshot) -> TargetMoment:
    """Look once, now; the counters are those of the look.

    Where variables lead to too little of the memory, the look goes through all objects of Python's.
    """
    state = after(ProbeState(client.greeting), client.statistics())
    state = after(after(state, client.look()), client.greeting)  # the greeting may have changed meanwhile
    moment = moment_among(state, read_surroundings(client.greeting, snapshot, client.greeting.pid))
    if not is_well_named(moment):
        state = after(state, client.look("scan"))
        moment = moment_among(state, read_surroundings(client.greeting, snapshot, client.greeting.pid))
    return moment


def feed_opener(
    interval_s: float, keeper: Keeper = NO_KEEPER, look_pause_s: float | None = AUTOMATIC_S
) -> Callable[[Callable[[], Snapshot]], Callable[[int, Listener], TargetFeed]]:
    """A function that takes a getter of the newest snapshot and returns `open_feed`, which raises GputuiError."""

    def with_snapshots(snapshot: Callable[[], Snapshot]) -> Callable[[int, Listener], TargetFeed]:
        def open_feed(pid: int, listener: Listener) -> TargetFeed:
            from gputui.sources.probe.listing import attach

            return TargetFeed(attach(pid), snapshot, listener, max(interval_s, SHORTEST_S), keeper, look_pause_s)

        return open_feed

    return with_snapshots
