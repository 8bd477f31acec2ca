"""A daemon thread that talks to one probe and turns its messages into moments."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from queue import Empty, SimpleQueue

from gputui.explain.memory.collection import likely_bytes
from gputui.explain.memory.drivers import driver_facts
from gputui.explain.moment.probe_state import Message, ProbeState, after, moment_among
from gputui.model.attached.analysis import DriverFacts
from gputui.model.attached.moment import Surroundings, TargetMoment
from gputui.model.attached.target import ActionName, ActionResult, Disconnect, Garbage, Greeting, Look, Statistics
from gputui.model.machine.snapshot import Snapshot
from gputui.model.reading import Absent, Problem, ProblemKind
from gputui.protocol.pauses import AUTOMATIC_S
from gputui.sources.probe.client import ProbeClient, ProbeError
from gputui.sources.probe.garbage import GarbageSearch
from gputui.sources.probe.recorder import NO_RECORDER, Recorder
from gputui.sources.procfs import ProcFs

Listener = Callable[[TargetMoment], None]

SHORTEST_S = 0.25
"""The shortest interval at which screens ask a program for its counters."""

LOOKS_ARE_OFF = Problem("Automatic looks are off (look_pause).", ProblemKind.LOOK_ON_REQUEST)

Request = Callable[[ProbeClient], None]

NAME_GROWTH_EVERY_S = 60.0
"""How often at most a look is asked for beside the automatic ones, to find out what grows."""

GARBAGE_EVERY_S = 60.0
"""How often at most a feed asks by itself what only reference cycles keep."""

PATIENCE_S = 0.2
"""How long the thread waits for a message, and so how long a screen's request may have to wait."""

SHARE = 0.25
"""The share of one processor that reading the looks of all processes together may take."""


class SharedPace:
    """Counts the feeds of a viewer, which share the processor, and says how long each rests between two looks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._feeds = 0

    def join(self) -> None:
        """Count one more feed."""
        with self._lock:
            self._feeds += 1

    def leave(self) -> None:
        """Count one feed less."""
        with self._lock:
            self._feeds -= 1

    def rest_s(self, processor_s: float) -> float:
        """How long a feed rests after a look whose reading took `processor_s` of processor time, 0 if it is alone."""
        return processor_s * self._feeds / SHARE if self._feeds > 1 else 0.0


class TargetFeed:
    """Reads one probe until the process ends or `stop`; its methods can be called from any thread and return at once.

    `snapshot` returns the newest snapshot, with NVML's figures for the process; `recorder` is told all that is read.
    `look_pause_s` is how long an automatic look may stop the program at a time; None: there are no automatic looks.
    `shared_pace` is shared by all feeds of a viewer.
    """

    def __init__(
        self,
        client: ProbeClient,
        snapshot: Callable[[], Snapshot],
        listener: Listener,
        interval_s: float = 1.0,
        recorder: Recorder = NO_RECORDER,
        look_pause_s: float | None = AUTOMATIC_S,
        shared_pace: SharedPace | None = None,
    ) -> None:
        self._client = client
        self._snapshot = snapshot
        self._listener = listener
        self._interval_s = interval_s
        self._requests: SimpleQueue[Request] = SimpleQueue()
        self._is_stopped = False
        self._is_waiting = False
        """Whether a look at the next change has been asked for and has not come yet."""
        self._automatic: str | None = "walk"
        self._look_pause_s = look_pause_s
        self._named_growth_at = float("-inf")
        """When a look was last asked for to name what grows (monotonic seconds)."""
        self._shared_pace = shared_pace or SharedPace()
        self._look_again_at = 0.0
        """When the next look at a change may be asked for (monotonic seconds)."""
        self._recorder = recorder
        recorder.listen_to(client)
        self._garbage: GarbageSearch | None = None
        """The search under way for what `gc.collect()` would free."""
        self._garbage_at, self._garbage_bytes = 0.0, 0
        """When the last search began (monotonic seconds), and the least bytes without a variable since then."""
        self._wants_garbage = False
        """Whether the user has asked for a scan, which includes a search for garbage."""
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
        self._requests.put(lambda client: self._ask_look(client, how))

    def mark(self, label: str) -> None:
        """Name this moment, for all viewers."""
        self._requests.put(lambda client: client.mark(label))

    def run_action(self, name: ActionName) -> None:
        """Ask for an action in the program; moments show that it is pending, and its outcome."""
        self._requests.put(lambda client: self._ask_action(client, name))

    def _run(self) -> None:
        self._shared_pace.join()
        try:
            with self._client as client:
                client.subscribe(self._interval_s)
                if self._look_pause_s is not None:
                    client.ask_look(pause_s=self._look_pause_s)  # all of it at once, and no longer stops for that
                while not self._is_stopped:
                    self._send_requests(client)
                    began_s = time.thread_time()
                    is_working = self._garbage is not None and self._garbage.is_working
                    self._take(client, client.receive(0.0 if is_working else PATIENCE_S), began_s)
        except ProbeError as error:
            self._deliver(ended=error.disconnect)
        finally:
            self._shared_pace.leave()

    def _send_requests(self, client: ProbeClient) -> None:
        while True:
            try:
                request = self._requests.get_nowait()
            except Empty:
                return
            request(client)

    def _take(self, client: ProbeClient, message: Message | None, began_s: float) -> None:
        if self._garbage is not None:
            message = self._garbage.follow(message)
        if message is None:
            return
        self._state = after(self._state, message)
        if isinstance(message, Statistics):
            self._automatic = message.automatic
            self._name_growth(client)
            self._await_change(client)
            self._deliver()
        elif isinstance(message, Look):
            self._is_waiting = False
            self._deliver()
            self._look_again_at = time.monotonic() + self._shared_pace.rest_s(time.thread_time() - began_s)
            self._await_change(client)
            self._ask_for_garbage(client)
        elif isinstance(message, ActionResult):
            self._take_result(client, message)
        elif isinstance(message, Garbage):
            self._garbage = None
            self._deliver()

    def _name_growth(self, client: ProbeClient) -> None:
        """If counters show growth that looks have not named, ask for a whole look, in stops as short as usual."""
        is_due = time.monotonic() - self._named_growth_at >= NAME_GROWTH_EVERY_S
        if self._look_pause_s is not None and self._automatic is not None and is_due and self._state.wants_look:
            self._named_growth_at = time.monotonic()
            client.ask_look(pause_s=self._look_pause_s)

    def _ask_look(self, client: ProbeClient, how: str) -> None:
        self._wants_garbage |= how == "scan"
        client.ask_look(how)

    def _ask_for_garbage(self, client: ProbeClient) -> None:
        """If no variable leads to some memory, ask what a collection would free: seldom, and only if there is more."""
        lost_bytes = likely_bytes(self._state.layouts.values())
        self._garbage_bytes = min(self._garbage_bytes, lost_bytes)
        is_time = time.monotonic() - self._garbage_at > GARBAGE_EVERY_S or not self._garbage_at
        looks_by_itself = self._look_pause_s is not None and self._automatic is not None and not client.node
        is_due = looks_by_itself and is_time and lost_bytes > self._garbage_bytes
        if self._garbage is None and (is_due or self._wants_garbage):
            pause_s = self._look_pause_s or AUTOMATIC_S
            self._garbage = GarbageSearch(client, pause_s, is_asked_for=self._wants_garbage)
            self._wants_garbage, self._garbage_at, self._garbage_bytes = False, time.monotonic(), lost_bytes

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
        is_wanted = self._automatic is not None and self._look_pause_s is not None
        if is_wanted and not self._is_waiting and time.monotonic() >= self._look_again_at:
            self._is_waiting = True
            client.ask_look("walk", when="changed", pause_s=self._look_pause_s)

    def _surroundings(self, ended: Disconnect | None) -> Surroundings:
        greeting, node = self._state.greeting, self._client.node
        if node:
            return surroundings_of_node(greeting, node, ended)
        return read_surroundings(greeting, self._snapshot(), self.pid, ended)

    def _deliver(self, ended: Disconnect | None = None) -> None:
        surroundings = self._surroundings(ended)
        self._recorder.note_surroundings(self.pid, surroundings)
        moment = moment_among(self._state, surroundings)
        if self._look_pause_s is None:
            moment = replace(moment, problems=(*moment.problems, LOOKS_ARE_OFF))
        if self._recorder.problem:
            moment = replace(moment, problems=(*moment.problems, Problem(self._recorder.problem)))
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


def surroundings_of_node(greeting: Greeting, node: str, ended: Disconnect | None = None) -> Surroundings:
    """The surroundings of a process on another machine, where only its probe is asked: all readings are absent."""
    there = Absent(f"it runs on {node}, where only its probe is asked")
    facts = DriverFacts(None, there, there, there, there, there)
    drivers = tuple((device.index, facts) for device in greeting.devices)
    return Surroundings(time=time.time(), drivers=drivers, rss_bytes=there, ended=ended, node=node)


def feed_opener(
    interval_s: float,
    recorder: Recorder = NO_RECORDER,
    look_pause_s: float | None = AUTOMATIC_S,
    attach: Callable[[int], ProbeClient] | None = None,
) -> Callable[[Callable[[], Snapshot]], Callable[[int, Listener], TargetFeed]]:
    """A function that takes a getter of the newest snapshot and returns `open_feed`, which raises GputuiError.

    `attach` connects to the probe of a process; None: the one on this machine.
    """

    shared_pace = SharedPace()

    def with_snapshots(snapshot: Callable[[], Snapshot]) -> Callable[[int, Listener], TargetFeed]:
        def open_feed(pid: int, listener: Listener) -> TargetFeed:
            from gputui.sources.probe import listing

            each_s = max(interval_s, SHORTEST_S)
            return TargetFeed(
                (attach or listing.attach)(pid), snapshot, listener, each_s, recorder, look_pause_s, shared_pace
            )

        return open_feed

    return with_snapshots
