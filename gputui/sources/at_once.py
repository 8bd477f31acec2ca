"""Work that another user can keep waiting for ever, with a time limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def at_once(work: Callable[[T], R], items: Sequence[T], deadline: float) -> list[R | None]:
    """What `work` returns for each, done in a thread for each; None for those that have not ended at the deadline.

    Such a thread is left behind: the kernel may wait for another user's file system, and no signal but SIGKILL ends
    that. Raises the first error of the others.
    """
    results: list[R | None] = [None] * len(items)
    errors: list[Exception] = []

    def run(place: int) -> None:
        try:
            results[place] = work(items[place])
        except Exception as error:  # noqa: BLE001 - raised below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(place,), daemon=True) for place in range(len(items))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    if errors:
        raise errors[0]
    return list(results)
