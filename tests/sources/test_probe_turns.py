"""Who is asked first, where not all can be asked in time."""

from __future__ import annotations

from contextlib import suppress
from threading import get_ident

import pytest

from gputui.sources.at_once import at_once
from gputui.sources.probe.turns import Turns

EARLIER, LATER = 0.0, 1e9
"""Times of the monotonic clock."""


def order(turns: Turns, *pids: int) -> list[int]:
    return turns.in_order(pids, lambda pid: pid)


def test_those_that_have_waited_longest_come_first() -> None:
    turns = Turns()
    assert order(turns, 1, 2, 3) == [1, 2, 3]
    for pid in (1, 2):
        turns.ask(pid, lambda: None)
    assert order(turns, 1, 2, 3) == [3, 1, 2]
    turns.ask(3, lambda: None)
    turns.ask(1, lambda: None)
    assert order(turns, 1, 2, 3) == [2, 3, 1]


def test_one_that_did_not_answer_comes_last_until_it_does() -> None:
    turns = Turns()
    with pytest.raises(TimeoutError):
        turns.ask(1, _fail)
    turns.ask(2, lambda: None)
    assert order(turns, 1, 2, 3) == [3, 2, 1]
    turns.ask(1, lambda: None)
    assert order(turns, 1, 2) == [2, 1]


def test_where_there_is_time_for_a_few_everybody_gets_a_turn_again() -> None:
    turns, seen, answered = Turns(), set[int](), set[int]()
    for _ in range(12):
        for pid in order(turns, *range(1, 21))[:5]:
            with suppress(TimeoutError):
                turns.ask(pid, lambda: None if pid in seen or pid % 2 else _fail())  # noqa: B023 - called here
                answered.add(pid)
            seen.add(pid)
    assert answered == set(range(1, 21))


def _fail() -> None:
    raise TimeoutError


def test_processes_that_have_ended_are_forgotten() -> None:
    turns = Turns()
    turns.ask(1, lambda: None)
    assert order(turns, 2) == [2]
    assert order(turns, 1, 2) == [1, 2]


def test_a_few_threads_do_the_work_of_many() -> None:
    threads = set[int]()

    def work(number: int) -> int:
        threads.add(get_ident())
        return number

    assert at_once(work, range(50), LATER, 2) == list(range(50))
    assert len(threads) <= 2


def test_nothing_is_begun_after_the_deadline() -> None:
    begun = []
    assert at_once(begun.append, range(3), EARLIER, 1) == [None] * 3
    assert begun == []
