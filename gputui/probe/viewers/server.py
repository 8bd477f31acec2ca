"""Serving viewers: one loop over all of them, in the probe's only thread, for as long as there are any."""

from __future__ import annotations

from collections.abc import Callable
from select import POLLIN, POLLOUT
from typing import Any

import gputui
from gputui.probe.guards.originals import monotonic, perf_counter
from gputui.probe.guards.probe_thread import Stop, Waker, poll
from gputui.probe.looks import counters
from gputui.probe.looks.counters import CounterReader
from gputui.probe.looks.looks import LookRunner
from gputui.probe.looks.messages import action_result_frame, look_frame, step_frame
from gputui.probe.looks.top_watch import TopWatch
from gputui.probe.main_thread import process
from gputui.probe.main_thread.calls import MainThread
from gputui.probe.main_thread.untraced import untraced
from gputui.probe.pace.budget import LookRequest
from gputui.probe.viewers import sockets
from gputui.probe.viewers.actions import BUSY, RECORD_STEP, ActionRequest, ActionRunner, allowed_actions, nothing_done
from gputui.probe.viewers.connection import Connection, Gone, Viewer
from gputui.probe.viewers.garbage import GarbageReader
from gputui.probe.viewers.requests import Request, RequestError, is_answered, read_request
from gputui.probe.viewers.step import StepRecorder
from gputui.protocol import frames

MAX_VIEWERS = 4
_LONGEST_WAIT_S = 1.0
_WAIT_AT_EXIT_S = 0.1
"""Seconds to wait at exit, for all viewers together, while they read what they were sent."""


class Server:
    """All viewers of this process. `marks` are (number, time, label); `mark` adds one.

    `end` has the probe end and returns "", or returns why the probe does not end.
    """

    def __init__(
        self,
        listener: sockets.Listener,
        waker: Waker,
        marks: list[tuple[int, float, str]],
        mark: Callable[[str], None],
        end: Callable[[], str],
    ) -> None:
        self._listener = listener
        self._waker = waker
        self._marks = marks
        self._viewers: list[Viewer] = []
        self._main_thread = MainThread(waker.wake)
        self._counters = CounterReader(self._main_thread)
        self._top_watch = TopWatch(waker.wake)
        self._look_runner = LookRunner(self._main_thread, self._counters)
        self._action_runner = ActionRunner(self._main_thread)
        self._step_recorder = StepRecorder(self._main_thread)
        self._garbage = GarbageReader(self._main_thread)
        self._runners = (self._counters, self._look_runner, self._step_recorder, self._action_runner, self._garbage)
        self._action_viewer: Viewer | None = None
        self._end = end
        self._handlers: dict[Request, Callable[[Viewer, Any], None]] = {
            Request.HELLO: self._hello,
            Request.STATISTICS: self._subscribe,
            Request.LOOK: self._request_look,
            Request.MARK: lambda _viewer, label: mark(label),
            Request.ACTION: self._begin_action,
            Request.REFERENCES: self._garbage.ask,
            Request.GARBAGE: self._garbage.ask,
            Request.END: self._end_probe,
            Request.BYE: self._bye,
        }

    @property
    def is_busy(self) -> bool:
        """Whether there are viewers."""
        return bool(self._viewers)

    def run(self, stop: Stop) -> None:
        """Serve rounds until no viewer is left or `stop` asks; hidden from debuggers, which stop threads they see."""
        untraced(lambda: any(iter(lambda: self._round(stop), None)))

    def _round(self, stop: Stop) -> bool:
        for fd in self._wait(stop):
            self._serve(fd)
        for viewer in list(self._viewers):
            self._attempt(viewer, self._keep_up)
        self._serve_counters()
        self._serve_looks()
        self._serve_actions()
        self._garbage.serve(self._viewers, self._attempt, self._look_runner.account)
        if not self._viewers:
            self._drop_unfinished()
        return not self._viewers or stop.is_asked

    def say_last(self, error: str | None) -> None:
        """Send viewers the last counters and why the probe ends, as far as they read it within `_WAIT_AT_EXIT_S`.

        `error` is what ended the program, "" if nothing did, None if the program goes on without the probe.
        """
        deadline = monotonic() + _WAIT_AT_EXIT_S

        def say(viewer: Viewer) -> None:
            viewer.connection.flush_until(deadline)  # a look may be half sent
            self._keep_up(viewer)
            if viewer.interval_s is not None and viewer.is_ready:
                self._send_statistics(viewer, counters.read(process.loaded_torch()))
            if viewer.connection.is_greeted and not viewer.connection.has_unsent:
                viewer.send({"type": "ended", "is_exit": error is not None, "error": error or ""})

        for viewer in list(self._viewers):
            self._attempt(viewer, say)

    def fail(self, reason: str) -> None:
        """Tell every viewer the reason, as far as it reads it within `_WAIT_AT_EXIT_S`, and disconnect it."""
        deadline = monotonic() + _WAIT_AT_EXIT_S

        def say(viewer: Viewer) -> None:
            self._refuse(viewer, reason)
            viewer.connection.flush_until(deadline)

        for viewer in list(self._viewers):
            self._attempt(viewer, say)
        self.close()

    def close(self) -> None:
        """Disconnect every viewer."""
        self._drop_unfinished()
        for viewer in self._viewers:
            viewer.connection.close()
        self._viewers.clear()

    def _drop_unfinished(self) -> None:
        """The last viewer has gone: drop what is under way for it and what was kept for it."""
        for runner in self._runners:
            runner.leave()
        self._top_watch.close()
        self._top_watch = TopWatch(self._waker.wake)

    def _wait(self, stop: Stop) -> list[int]:
        waiting = poll()
        waiting.register(self._listener.fileno(), POLLIN)
        waiting.register(self._waker.fileno(), POLLIN)
        for viewer in self._viewers:
            waiting.register(viewer.connection.fileno(), POLLOUT if viewer.connection.has_unsent else POLLIN)
        longest_s = self._timeout_s() if self._viewers and not stop.is_asked else 0.0
        is_alone = all(runner.deadline is None for runner in self._runners)
        ready = self._top_watch.wait(waiting, longest_s, self._main_thread.note_wait, is_alone=is_alone)
        self._listener.check()
        self._waker.clear()
        return [fd for fd, _ in ready]

    def _timeout_s(self) -> float:
        now = perf_counter()
        times = [now + _LONGEST_WAIT_S]
        if self._counters.deadline is None:
            subscribers = [viewer for viewer in self._viewers if viewer.interval_s is not None and viewer.is_ready]
            times += [viewer.next_statistics_at for viewer in subscribers]
        times += [deadline for runner in self._runners if (deadline := runner.deadline) is not None]
        return max(0.0, min(times) - now)

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
            self._back_off()
            return
        if socket is None:
            return
        viewer = Viewer(Connection(socket), self._marks[-1][0] if self._marks else 0)
        self._viewers.append(viewer)
        if not sockets.is_allowed(socket):
            reason = "This process belongs to another user: attach as that user, or as root."
            self._attempt(viewer, lambda other: self._refuse(other, reason))
        elif len(self._viewers) > MAX_VIEWERS:
            reason = f"{MAX_VIEWERS} viewers are connected already: close one of them."
            self._attempt(viewer, lambda other: self._refuse(other, reason))

    def _back_off(self) -> None:
        """Wait a second, or until the thread is woken: the next viewer stays in the socket's queue meanwhile."""
        waiting = poll()
        waiting.register(self._waker.fileno(), POLLIN)
        waiting.poll(_LONGEST_WAIT_S * 1000)

    def _attempt(self, viewer: Viewer, step: Callable[[Viewer], None]) -> None:
        """Do something with one viewer; whatever goes wrong with it ends its connection and nothing else."""
        try:
            try:
                step(viewer)
            except (frames.FrameError, RequestError) as error:
                self._refuse(viewer, f"The viewer's message cannot be understood: {error}.")
        except Gone:
            viewer.connection.close()
            self._viewers.remove(viewer)

    def _receive(self, viewer: Viewer) -> None:
        viewer.connection.flush()
        if viewer.connection.has_unsent:
            return  # nothing is read from a viewer that does not read, so the data queued for it stays bounded
        for message in viewer.connection.receive():
            if viewer.connection.is_ending:
                return
            request, content = read_request(message)
            if not viewer.connection.is_greeted and request is not Request.HELLO:
                raise RequestError("its first message is not hello")
            self._handlers[request](viewer, content)

    def _keep_up(self, viewer: Viewer) -> None:
        viewer.connection.check_patience()
        if not viewer.is_ready:
            return
        for number, when, label in list(self._marks):
            if number > viewer.last_mark:
                viewer.last_mark = number
                viewer.send({"type": "mark", "time": when, "label": label})
        if viewer.is_due(perf_counter()):
            self._counters.begin()

    def _serve_counters(self) -> None:
        statistics = self._counters.finished()
        if statistics is None:
            return
        self._top_watch.note(statistics["devices"])
        read_at = self._counters.newest_at
        for viewer in list(self._viewers):
            if viewer.is_ready and viewer.is_due(read_at):
                viewer.next_statistics_at = max(viewer.next_statistics_at + (viewer.interval_s or 0.0), read_at)
                self._attempt(viewer, lambda subscriber: self._send_statistics(subscriber, statistics))

    def _send_statistics(self, viewer: Viewer, statistics: dict[str, Any]) -> None:
        self._send_greeting(viewer)
        swings = self._top_watch.fields()
        viewer.send({"type": "statistics", **self._look_runner.with_automatic(statistics), "swings": swings})

    def _send_greeting(self, viewer: Viewer) -> None:
        """Describe the process, at first and whenever that has changed (PyTorch imported, CUDA initialised)."""
        greeting = process.greeting(allowed_actions())
        if greeting != viewer.greeting:
            viewer.greeting = greeting
            viewer.send({"type": "greeting", **greeting})

    def _serve_looks(self) -> None:
        if (look := self._look_runner.finished()) is not None:
            self._send_look(look)
        if not self._look_runner.is_under_way:
            waiting = [(viewer, viewer.look_request) for viewer in self._viewers if viewer.look_request]
            ready = [request for viewer, request in waiting if self._is_time(viewer, request)]
            if ready:  # an urgent one first; of several, the one with the shortest pause
                request = min(ready, key=lambda request: (not request.is_urgent, request.pause_ms))
                if request.is_urgent or self._top_watch.is_moment(is_eager=self._look_runner.is_eager):
                    self._look_runner.begin(request, is_at_top=self._top_watch.begin() and not request.is_urgent)

    def _is_time(self, viewer: Viewer, request: LookRequest) -> bool:
        if request.is_urgent:
            return True
        if not self._look_runner.is_automatic_due or viewer.connection.has_unsent:
            return False
        if perf_counter() > self._counters.fetched_at + _LONGEST_WAIT_S:
            self._counters.begin()  # the counters say whether memory has changed
            return False
        if viewer.stamp is not None and viewer.stamp == self._look_runner.stamp():
            return False
        return not self._look_runner.why_not_automatic()

    def _send_look(self, look: dict[str, Any]) -> None:
        method, is_urgent, stamp = look.pop("method"), look.pop("is_urgent"), look.pop("stamp")
        waiting = [viewer for viewer in self._viewers if is_answered(viewer.look_request, method, is_urgent=is_urgent)]
        pieces, cost_s = look_frame(look)
        if not is_urgent:
            self._look_runner.account(cost_s + self._top_watch.spent_s())
        for viewer in waiting:
            viewer.look_request, viewer.stamp = None, stamp
            self._attempt(viewer, lambda receiver: receiver.connection.send(*pieces))

    def _hello(self, viewer: Viewer, protocol: int) -> None:
        if protocol != frames.VERSION:
            self._refuse(viewer, f"The probe speaks version {frames.VERSION} of the protocol, the viewer {protocol}.")
            return
        viewer.connection.is_greeted = True
        viewer.send({"type": "hello", "protocol": frames.VERSION, "gputui": gputui.__version__})
        viewer.greeting = {}
        self._send_greeting(viewer)

    def _subscribe(self, viewer: Viewer, interval_s: float | None) -> None:
        viewer.interval_s, viewer.next_statistics_at = interval_s, perf_counter()

    def _request_look(self, viewer: Viewer, request: LookRequest) -> None:
        if request.is_urgent or viewer.look_request is None or not viewer.look_request.is_urgent:
            viewer.look_request = request
        if request.is_urgent:
            self._look_runner.hurry()

    def _begin_action(self, viewer: Viewer, request: ActionRequest) -> None:
        if self._action_runner.name or self._step_recorder.is_under_way:
            viewer.send(nothing_done(request.name, BUSY))
            return
        self._action_viewer = viewer
        (self._step_recorder if request.name == RECORD_STEP else self._action_runner).begin(request)

    def _serve_actions(self) -> None:
        if self._step_recorder.is_under_way and self._action_viewer not in self._viewers:
            self._step_recorder.leave()
        result, step = self._action_runner.finished(), None
        if result is None:
            result, step = self._step_recorder.finished() or (None, None)
        if result is None:
            return
        viewer, self._action_viewer = self._action_viewer, None
        if viewer is not None and viewer in self._viewers:
            pieces = [*(step_frame(step) if step else []), *action_result_frame(result)]
            self._attempt(viewer, lambda receiver: receiver.connection.send(*pieces))

    def _end_probe(self, viewer: Viewer, _content: None) -> None:
        if reason := self._end():
            self._refuse(viewer, reason)

    def _bye(self, _viewer: Viewer, _content: None) -> None:
        raise Gone

    def _refuse(self, viewer: Viewer, reason: str) -> None:
        viewer.connection.is_ending = True
        viewer.send({"type": "refused", "protocol": frames.VERSION, "gputui": gputui.__version__, "reason": reason})
