"""Places at which reading a recording can begin, so that a jump does not read everything before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

FIRST_SPACING_S = 60.0
BOOKMARKS_AT_MOST = 32
"""In a week's recording one bookmark in six hours. Each takes about 2 MiB a process, for the timelines' counters."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bookmark(Generic[T]):
    """The state of each process (`kept`, by PID) after the chunks before number `chunk`, and their newest time."""

    time: float
    chunk: int
    kept: Mapping[int, T]


class Bookmarks(Generic[T]):
    """The bookmarks of a recording, a minute apart at first; as they become many, every second one is dropped."""

    def __init__(self) -> None:
        self._all: list[Bookmark[T]] = []
        self._spacing_s = FIRST_SPACING_S

    def is_due(self, time: float) -> bool:
        """Whether a bookmark is wanted at a time."""
        return not self._all or time >= self._all[-1].time + self._spacing_s

    def add(self, bookmark: Bookmark[T]) -> None:
        """Add a bookmark that is later than all others."""
        self._all.append(bookmark)
        if len(self._all) > BOOKMARKS_AT_MOST:
            del self._all[::2]
            self._spacing_s *= 2

    def before(self, time: float) -> Bookmark[T] | None:
        """The last bookmark not after a time."""
        return next((bookmark for bookmark in reversed(self._all) if bookmark.time <= time), None)
