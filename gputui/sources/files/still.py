"""A feed for files with a single moment: a black box, or a snapshot of PyTorch's."""

from __future__ import annotations

from collections.abc import Callable

from gputui.model.attached.moment import TargetMoment


class StillFeed:
    """Delivers one moment, once; requests do nothing, as there is no program to ask."""

    def __init__(self, moment: TargetMoment, listener: Callable[[TargetMoment], None]) -> None:
        self._moment = moment
        self._listener = listener

    @property
    def pid(self) -> int:
        """The PID of the process in the file, 0 where the file does not have it."""
        return self._moment.pid

    def start(self) -> None:
        """Deliver the moment."""
        self._listener(self._moment)

    def stop(self) -> None:
        """Does nothing."""

    def look(self, how: str = "walk") -> None:
        """Does nothing: there is no program to look at."""

    def mark(self, label: str) -> None:
        """Does nothing: there is only one moment."""
