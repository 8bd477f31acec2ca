"""Serving viewers: one loop over all of them, in the probe's only thread, for as long as there are any."""

from __future__ import annotations

from collections.abc import Callable
from select import POLLIN, POLLOUT, poll
from time import monotonic, perf_counter, thread_time
from typing import Any, Protocol

import gputui
from gputui.probe import counters, process, sockets
from gputui.probe.actions import BUSY, ActionRunner, nothing_done
from gputui.probe.connection import Connection, Gone
from gputui.probe.counters import CounterReader
from gputui.probe.encoding import encode_in_pieces
from gputui.probe.looks import LookRunner
from gputui.probe.probe_thread import Waker
from gputui.probe.requests import ActionRequest, LookRequest, Request, RequestError, read_request
from gputui.probe.viewer import Viewer
from gputui.protocol import frames

MAX_VIEWERS = 4
_LONGEST_WAIT_S = 1.0
_LAST_WORD_WITHIN_S = 0.1
"""So long the end of the program waits for all viewers together, where they have not read what was sent before."""


class StopToken(Protocol):
    """Tells that this thread is to end."""

    is_asked: bool


class Server:
    """All viewers of this process. `marks` are (number, time, label), and `mark` adds one."""

    def __init__(
        self, listener: sockets.Listener, waker: Waker, marks: list[tuple[int, float, str]], mark: Callable[[str], None]
    ) -> None:
        self._listener = listener
        self._waker = waker
        self._marks = marks
        self._viewers: list[Viewer] = []
        self._counters = CounterReader(waker.wake)
        self._look_runner = LookRunner(waker.wake, self._counters)
        self._action_runner = ActionRunner(waker.wake)
        self._action_viewer: Viewer | None = None
        self._requests: dict[Request, Callable[[Viewer, Any], None]] = {
            Request.HELLO: self._hello,
            Request.STATISTICS: self._subscribe,
            Request.LOOK: self._want_look,
            Request.MARK: lambda _viewer, label: mark(label),
            Request.ACTION: self._run_action,
            Request.BYE: self._bye,
        }

    @property
    def is_busy(self) -> bool:
        """Whether there are viewers."""
        return bool(self._viewers)

    def run(self, stop: StopToken) -> None:
        """Serve until the last viewer has gone or `stop` is asked for."""
        while not stop.is_asked:
            for fd in self._wait():
                self._serve(fd)
            for viewer in list(self._viewers):
                self._attempt(viewer, self._keep_up)
            self._serve_counters()
            self._serve_looks()
            self._serve_actions()
            if not self._viewers:
                self._leave()
                return

    def say_last(self, error: str | None) -> None:
        """Tell viewers how the counters stand at the end, and why it ends, as far as their sockets take it in time.

        `error` is what ended the program, "" where nothing did, None where it goes on without the probe.
        """

        until = monotonic() + _LAST_WORD_WITHIN_S

        def say(viewer: Viewer) -> None:
            viewer.connection.flush_until(until)  # of a look, perhaps
            self._keep_up(viewer)
            if viewer.interval_s is not None and viewer.hears:
                self._send_statistics(viewer, counters.read(process.loaded_torch()))
            if viewer.connection.is_greeted and not viewer.connection.has_unsent:
                viewer.send({"type": "ended", "is_exit": error is not None, "error": error or ""})

        for viewer in list(self._viewers):
            self._attempt(viewer, say)

    def close(self) -> None:
        """Let every viewer go."""
        self._leave()
        for viewer in self._viewers:
            viewer.connection.close()
        self._viewers.clear()

    def _leave(self) -> None:
        """Keep nothing that was taken for viewers who have gone."""
        for part in (self._counters, self._look_runner, self._action_runner):
            part.leave()

    def _wait(self) -> list[int]:
        waiting = poll()
        waiting.register(self._listener.fileno(), POLLIN)
        waiting.register(self._waker.fileno(), POLLIN)
        for viewer in self._viewers:
            waiting.register(viewer.connection.fileno(), POLLOUT if viewer.connection.has_unsent else POLLIN)
        ready = waiting.poll(self._timeout_ms() if self._viewers else 0)
        self._listener.check()
        self._waker.clear()
        return [fd for fd, _ in ready]

    def _timeout_ms(self) -> int:
        now = perf_counter()
        times = [now + _LONGEST_WAIT_S]
        if self._counters.deadline is None:
            times += [viewer.due for viewer in self._viewers if viewer.interval_s is not None and viewer.hears]
        deadlines = (part.deadline for part in (self._counters, self._look_runner, self._action_runner))
        times += [deadline for deadline in deadlines if deadline is not None]
        return max(1, int((min(times) - now) * 1000) + 1)

    def _serve(self, fd: int) -> None:
        if fd == self._listener.fileno():
            self._accept()
        for viewer in list(self._viewers):
            if viewer.connection.fileno() == fd:
                self._attempt(viewer, self._receive)

    def _accept(self) -> None:
        try:
            socket = self._listener.accept()
        except sockets.ShortageError:
            self._rest()
            return
        if socket is None:
            return
        viewer = Viewer(Connection(socket), self._marks[-1][0] if self._marks else 0)
        self._viewers.append(viewer)
        if not sockets.is_allowed(socket):
            self._attempt(viewer, lambda each: self._refuse(each, "This process belongs to another user."))
        elif len(self._viewers) > MAX_VIEWERS:
            self._attempt(viewer, lambda each: self._refuse(each, f"{MAX_VIEWERS} viewers are connected already."))

    def _rest(self) -> None:
        """Wait a while, or until this thread is woken: a viewer that cannot be let in waits at the door."""
        waiting = poll()
        waiting.register(self._waker.fileno(), POLLIN)
        waiting.poll(_LONGEST_WAIT_S * 1000)

    def _attempt(self, viewer: Viewer, action: Callable[[Viewer], None]) -> None:
        """Do something with a viewer; what goes wrong between the two of us ends here."""
        try:
            try:
                action(viewer)
            except (frames.FrameError, RequestError) as error:
                self._refuse(viewer, f"What the viewer sent cannot be understood: {error}.")
        except Gone:
            viewer.connection.close()
            self._viewers.remove(viewer)

    def _receive(self, viewer: Viewer) -> None:
        viewer.connection.flush()
        if viewer.connection.has_unsent:
            return  # one that does not read is not listened to: what waits for it stays bounded
        for message in viewer.connection.receive():
            if viewer.connection.is_ending:
                return
            request, content = read_request(message)
            if not viewer.connection.is_greeted and request is not Request.HELLO:
                raise RequestError("it did not say hello first")
            self._requests[request](viewer, content)

    def _keep_up(self, viewer: Viewer) -> None:
        viewer.connection.check_patience()
        if not viewer.hears:
            return
        for number, when, label in list(self._marks):
            if number > viewer.last_mark:
                viewer.last_mark = number
                viewer.send({"type": "mark", "time": when, "label": label})
        if viewer.is_due(perf_counter()):
            self._counters.begin()

    def _serve_counters(self) -> None:
        read = self._counters.finished()
        if read is None:
            return
        for viewer in list(self._viewers):
            if viewer.hears and viewer.is_due(self._counters.newest_at):
                viewer.due = max(viewer.due + (viewer.interval_s or 0.0), self._counters.newest_at)
                self._attempt(viewer, lambda each: self._send_statistics(each, read))

    def _send_statistics(self, viewer: Viewer, read: dict[str, Any]) -> None:
        self._send_greeting(viewer)
        viewer.send({"type": "statistics", **self._look_runner.told_with(read)})

    def _send_greeting(self, viewer: Viewer) -> None:
        """Introduce the program, again where it has changed since (PyTorch imported, CUDA initialised)."""
        greeting = process.greeting()
        if greeting != viewer.greeting:
            viewer.greeting = greeting
            viewer.send({"type": "greeting", **greeting})

    def _serve_looks(self) -> None:
        taken = self._look_runner.finished()
        if taken is not None:
            self._answer(taken)
        if self._look_runner.how is None:
            ready = [
                viewer.wanted for viewer in self._viewers if viewer.wanted and self._is_time(viewer, viewer.wanted)
            ]
            if ready:
                wanted = max(ready, key=lambda each: each.is_urgent)
                self._look_runner.begin(wanted.how, wanted.wait_s, is_urgent=wanted.is_urgent)

    def _is_time(self, viewer: Viewer, wanted: LookRequest) -> bool:
        if wanted.is_urgent:
            return True
        if perf_counter() < self._look_runner.free_at or viewer.connection.has_unsent:
            return False
        if perf_counter() > self._counters.newest_at + _LONGEST_WAIT_S:
            self._counters.begin()  # whether anything has changed, and how dear a look is, they tell
            return False
        if viewer.seen is not None and viewer.seen == self._look_runner.stamp():
            return False
        return self._look_runner.way(wanted.how)[0] is not None

    def _answer(self, taken: dict[str, Any]) -> None:
        how, is_urgent, stamp = taken.pop("how"), taken.pop("is_urgent"), taken.pop("stamp")
        waiting = [viewer for viewer in self._viewers if _is_answered(viewer.wanted, how, is_urgent=is_urgent)]
        pieces, cost_s = _encode(taken)
        self._look_runner.account(cost_s)
        for viewer in waiting:
            viewer.wanted, viewer.seen = None, stamp
            self._attempt(viewer, lambda each: each.connection.send(*pieces))

    def _hello(self, viewer: Viewer, protocol: int) -> None:
        if protocol != frames.VERSION:
            self._refuse(viewer, f"The probe speaks version {frames.VERSION} of the protocol, the viewer {protocol}.")
            return
        viewer.connection.is_greeted = True
        viewer.send({"type": "hello", "protocol": frames.VERSION, "gputui": gputui.__version__})
        viewer.greeting = {}
        self._send_greeting(viewer)

    def _subscribe(self, viewer: Viewer, interval_s: float | None) -> None:
        viewer.interval_s, viewer.due = interval_s, perf_counter()

    def _want_look(self, viewer: Viewer, wanted: LookRequest) -> None:
        if wanted.is_urgent or viewer.wanted is None or not viewer.wanted.is_urgent:
            viewer.wanted = wanted

    def _run_action(self, viewer: Viewer, wanted: ActionRequest) -> None:
        if self._action_runner.name:
            viewer.send(nothing_done(wanted.name, BUSY))
        else:
            self._action_viewer = viewer
            self._action_runner.begin(wanted)

    def _serve_actions(self) -> None:
        result = self._action_runner.finished()
        viewer, self._action_viewer = self._action_viewer, self._action_viewer if result is None else None
        if result is not None and viewer is not None and viewer in self._viewers:
            pieces = _encode_result(result)
            self._attempt(viewer, lambda each: each.connection.send(*pieces))

    def _bye(self, _viewer: Viewer, _content: None) -> None:
        raise Gone

    def _refuse(self, viewer: Viewer, reason: str) -> None:
        viewer.connection.is_ending = True
        refusal = {"type": "refused", "protocol": frames.VERSION, "gputui": gputui.__version__, "reason": reason}
        viewer.send(refusal)


def _is_answered(wanted: LookRequest | None, how: str, *, is_urgent: bool) -> bool:
    """Whether a look by `how` is what was wanted; one that was not urgent may be less than one that is."""
    return wanted is not None and wanted.how == how and (is_urgent or not wanted.is_urgent)


def _encode_result(result: dict[str, Any]) -> list[bytes]:
    """What came of an action as the pieces of a frame, without the map where that makes it too large."""
    without_map = result | {"map": None, "devices": list(result["devices"])}
    pieces = encode_in_pieces(result)
    if sum(map(len, pieces)) > frames.MAX_REPLY_BYTES:
        pieces = encode_in_pieces(without_map)
    return [frames.header(sum(map(len, pieces))), *pieces]


def _encode(taken: dict[str, Any]) -> tuple[list[bytes], float]:
    """A look as the pieces of a frame, and the seconds it cost the program's main thread and the probe's in all."""
    began = thread_time()
    cost = taken.pop("cost")
    pieces = encode_in_pieces(taken)
    cost["probe_cpu_ms"] += (thread_time() - began) * 1000
    pieces[-1:] = [b',"cost":', *encode_in_pieces(cost), b"}"]
    size = sum(map(len, pieces))
    if size > frames.MAX_REPLY_BYTES:
        reason = f"The look takes {size} bytes to send, and {frames.MAX_REPLY_BYTES} are allowed."
        pieces = encode_in_pieces({"type": "failed", "reason": reason})
        size = sum(map(len, pieces))
    return [frames.header(size), *pieces], max(cost["pause_ms"], cost["probe_cpu_ms"]) / 1000
