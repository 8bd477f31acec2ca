"""A daemon thread that holds the conversation with one probe and turns it into moments."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from queue import Empty, SimpleQueue

from gputui.errors import GputuiError
from gputui.explain.drivers import driver_facts
from gputui.explain.moment import ProbeState, after, moment_among
from gputui.model.moment import Surroundings, TargetMoment
from gputui.model.snapshot import Snapshot
from gputui.model.target import ActionName, ActionResult, Greeting, Look, Statistics
from gputui.sources.probe.client import Message, ProbeClient
from gputui.sources.procfs import ProcFs
from gputui.sources.recording.recorder import NO_KEEPER, Keeper

Listener = Callable[[TargetMoment], None]

SHORTEST_S = 0.25
"""No screen asks a program for its counters more often."""

Request = Callable[[ProbeClient], None]

PATIENCE_S = 0.2
"""So long a request of a screen may wait for the thread, which listens to the probe meanwhile."""


class TargetFeed:
    """Reads one probe until the process ends or `stop`; its methods may be called from any thread and return at once.

    `snapshot` gives the newest snapshot of the machine, for what NVML says of the process; `keeper` keeps all of it.
    """

    def __init__(
        self,
        client: ProbeClient,
        snapshot: Callable[[], Snapshot],
        listener: Listener,
        interval_s: float = 1.0,
        keeper: Keeper = NO_KEEPER,
    ) -> None:
        self._client = client
        self._snapshot = snapshot
        self._listener = listener
        self._interval_s = interval_s
        self._requests: SimpleQueue[Request] = SimpleQueue()
        self._is_stopped = False
        self._is_waiting = False
        """Whether the probe was asked for a look once there is something new."""
        self._automatic: str | None = "walk"
        self._keeper = keeper
        keeper.listen_to(client)
        self._heard = ProbeState(client.greeting)
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
        """Ask for a look now; "scan" looks at every Python object."""
        self._requests.put(lambda client: client.ask_look(how))

    def mark(self, label: str) -> None:
        """Name this moment, for all viewers."""
        self._requests.put(lambda client: client.mark(label))

    def run_action(self, name: ActionName) -> None:
        """Have something done in the program; the moments tell that it is under way, and what came of it."""
        self._requests.put(lambda client: self._ask_action(client, name))

    def _run(self) -> None:
        try:
            with self._client as client:
                client.subscribe(self._interval_s)
                client.ask_look()  # who attaches asks to see what there is, also what no look by itself has time for
                while not self._is_stopped:
                    self._send_requests(client)
                    self._take(client, client.receive(PATIENCE_S))
        except GputuiError as error:
            self._deliver(ended=str(error))

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
        self._heard = after(self._heard, message)
        if isinstance(message, Statistics):
            self._automatic = message.automatic
            self._await_change(client)
            self._deliver()
        elif isinstance(message, Look):
            self._is_waiting = False
            self._await_change(client)
            self._deliver()
        elif isinstance(message, ActionResult):
            self._take_result(client, message)

    def _ask_action(self, client: ProbeClient, name: ActionName) -> None:
        if self._heard.pending_action is None:
            client.ask_action(name)
            self._heard = replace(self._heard, pending_action=name, outcome=None)
            self._deliver()

    def _take_result(self, client: ProbeClient, result: ActionResult) -> None:
        if not result.reason:
            client.ask_look()  # the last one shows what is gone, and the next automatic one may be long in coming
        self._deliver()

    def _await_change(self, client: ProbeClient) -> None:
        if not self._is_waiting and self._automatic is not None:
            self._is_waiting = True
            client.ask_look("walk", when="changed")

    def _deliver(self, ended: str = "") -> None:
        around = surroundings(self._heard.greeting, self._snapshot(), self.pid, ended)
        self._keeper.note_surroundings(self.pid, around)
        moment = moment_among(self._heard, around)
        if self._keeper.problem:
            moment = replace(moment, problems=(*moment.problems, self._keeper.problem))
        if not self._is_stopped:
            self._listener(moment)


def surroundings(greeting: Greeting, snapshot: Snapshot, pid: int, ended: str = "") -> Surroundings:
    """What this side knows of a process now."""
    processes = snapshot.processes.processes
    return Surroundings(
        time=time.time(),
        drivers=tuple(driver_facts(greeting, snapshot.devices, pid).items()),
        rss_bytes=ProcFs().resident_bytes(pid),
        workers=next((process.workers for process in processes if process.pid == pid), None),
        ended=ended,
    )


def feed_opener(
    interval_s: float, keeper: Keeper = NO_KEEPER
) -> Callable[[Callable[[], Snapshot]], Callable[[int, Listener], TargetFeed]]:
    """From the way to the newest snapshot to a function that attaches to a PID; the latter raises GputuiError."""

    def with_snapshots(snapshot: Callable[[], Snapshot]) -> Callable[[int, Listener], TargetFeed]:
        def open_feed(pid: int, listener: Listener) -> TargetFeed:
            from gputui.sources.probe.listing import attach

            return TargetFeed(attach(pid), snapshot, listener, max(interval_s, SHORTEST_S), keeper)

        return open_feed

    return with_snapshots
