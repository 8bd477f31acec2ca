"""Keeps a connection to one node, in a thread of its own that starts it again after a failure."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from gputui.errors import GputuiError
from gputui.model.fleet.parts import NodeProblem, Place
from gputui.model.told import NodeLook, Told
from gputui.sources.again import again_after_s
from gputui.system_faults import as_sentence

FIRST_WITHIN_S = 40.0
"""ssh gives up after 10 s; without persistence mode, the driver may take 30 s for its first answer."""


class Speaker(Protocol):
    """A connection to a node: `Connection`, or a test's."""

    def next_look(self, within_s: float) -> NodeLook:
        """The next look. Raises `GputuiError`."""
        ...

    def close(self) -> None:
        """End the connection, from any thread."""
        ...


class Line:
    """A node and its thread: `told` is the newest that is known, `ended` is set when the thread ends."""

    def __init__(
        self, place: Place, connect: Callable[[], Speaker], changed: Callable[[], object], clock: Callable[[], float]
    ) -> None:
        """`connect` connects or raises `GputuiError`; `changed` is called in the thread at each new `told`."""
        self.told = Told(place)
        self.ended = threading.Event()
        self._connect, self._changed, self._clock = connect, changed, clock
        self._closed = threading.Event()
        self._speaker: Speaker | None = None

    def start(self, after_s: float, silent_after_s: float | None) -> None:
        """Start the thread after `after_s`; it connects again after `silent_after_s` without a look, or ends after one
        look if that is None."""
        arguments = (after_s, silent_after_s)
        name = f"gputui-node-{self.told.place.node}"
        threading.Thread(target=self._run, args=arguments, name=name, daemon=True).start()

    def close(self) -> None:
        """End the connection for good, without waiting."""
        self._closed.set()
        if self._speaker is not None:
            self._speaker.close()

    def _run(self, after_s: float, silent_after_s: float | None) -> None:
        try:
            self._hear(after_s, silent_after_s)
        finally:
            self.ended.set()

    def _hear(self, after_s: float, silent_after_s: float | None) -> None:
        wait_s, failures = after_s, 0
        while not self._closed.wait(wait_s):
            heard_at = self.told.time
            try:
                self._listen(silent_after_s)
            except GputuiError as error:
                self._fail(error)
            except (OSError, MemoryError, RuntimeError) as error:
                refusal = as_sentence(error)
                if refusal is None:
                    raise
                self._fail(refusal)
            if silent_after_s is None:
                break
            failures = 0 if self.told.time > heard_at else failures + 1
            wait_s = again_after_s(failures)

    def _listen(self, silent_after_s: float | None) -> None:
        speaker = self._speaker = self._connect()
        try:
            within_s = FIRST_WITHIN_S
            while not self._closed.is_set():
                look, now = speaker.next_look(within_s), self._clock()
                problem = NodeProblem(look.problem, "", self._since(now)) if look.problem else None
                self._tell(Told(self.told.place, look, now, problem))
                if silent_after_s is None:
                    return
                within_s = silent_after_s
        finally:
            speaker.close()

    def _fail(self, error: GputuiError) -> None:
        if not self._closed.is_set():
            self._tell(self.told._replace(problem=NodeProblem(error.cause, error.remedy, self._since(self._clock()))))

    def _since(self, now: float) -> float:
        return self.told.problem.since if self.told.problem else now

    def _tell(self, told: Told) -> None:
        self.told = told
        self._changed()
