"""Runs work that another user can keep waiting for ever, with a time limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def at_once(
    work: Callable[[T], R], items: Sequence[T], deadline: float, at_a_time: int | None = None
) -> list[R | None]:
    """What `work` returns for each item, None where it has not ended at the deadline (monotonic clock).

    There are as many threads as items, or `at_a_time`: these begin items until the deadline. A thread that has not
    ended then is left behind: the kernel may wait for another user's file system, and no signal but SIGKILL ends that.
    Raises the first error of the work that has ended.
    """
    results: list[R | None] = [None] * len(items)
    errors: list[Exception] = []

    places = iter(range(len(items)))

    def run() -> None:
        for place in places:
            if at_a_time is not None and time.monotonic() > deadline:
                return
            try:
                results[place] = work(items[place])
            except Exception as error:  # noqa: BLE001 - raised below
                errors.append(error)

    threads = [threading.Thread(target=run, daemon=True) for _ in items[:at_a_time]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    if errors:
        raise errors[0]
    return list(results)
