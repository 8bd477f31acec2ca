"""The state of the What-if screen: which cases are answered, and why one is not."""

from __future__ import annotations

from collections.abc import Callable
from queue import Queue

from gputui.explain.whatif.cases import Case
from gputui.explain.whatif.view import WhatIfView
from tests.explain.test_step import training
from tests.hanging import HANGS_S

REFUSED = Case("", changes=("set-to-none",))
SECOND, THIRD = (Case(words, words) for words in ("large_segment_size_mb:64", "large_segment_size_mb:128"))


class Screen:
    """The view of a recorded training, and what its thread hands over."""

    def __init__(self) -> None:
        self.view = WhatIfView()
        self._handed: Queue[Callable[[], None]] = Queue()
        self.view.follow(training().recorded(), 0, {}, self._handed.put)
        self.wait()

    def wait(self) -> None:
        """Take what is handed over until nothing is replayed."""
        while self.view.is_building:
            self._handed.get(timeout=HANGS_S)()


def test_a_case_that_waits_is_answered_after_one_that_is_refused() -> None:
    screen = Screen()
    screen.view.ask(REFUSED)
    screen.view.ask(SECOND)
    screen.wait()
    assert screen.view.problem.startswith("There is nothing that set-to-none would change")
    assert screen.view.answers[-1].case == SECOND
    assert screen.view.waiting == []


def test_a_refusal_is_said_until_another_case_is_asked_for() -> None:
    screen = Screen()
    screen.view.ask(REFUSED)
    screen.wait()
    screen.view.ask(THIRD)
    screen.wait()
    assert screen.view.problem == ""
    assert screen.view.answers[-1].case == THIRD
