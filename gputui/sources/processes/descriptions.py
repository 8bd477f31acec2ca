"""What hardly changes in a process's life: its user, its command line and its place in a job."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from gputui.model.reading import Absent, Reading
from gputui.sources.processes.ranks import JobPlace, place_in_job
from gputui.sources.procfs import ProcFs, user_name
from gputui.sources.procfs_formats import Stat

_RENEW_S = 30.0


class Description(NamedTuple):
    """Read for each identity, and again when the process's name changes (exec, setproctitle) or after half a minute."""

    uid: Reading[int]
    command: Reading[str]
    place: JobPlace | None
    name: str
    until: float

    @property
    def user(self) -> Reading[str]:
        """The user's name, or the number until the name is known."""
        return self.uid if isinstance(self.uid, Absent) else user_name(self.uid)


class Descriptions:
    """Keeps the descriptions of the processes that the last look asked for."""

    def __init__(self, proc: ProcFs, clock: Callable[[], float] = time.monotonic) -> None:
        self._proc, self._clock = proc, clock
        self._descriptions: dict[tuple[int, float], Description] = {}

    def look(self, stats: Iterable[Stat]) -> dict[int, Description]:
        """The descriptions of these processes by PID."""
        now = self._clock()
        last, self._descriptions = self._descriptions, {}
        for stat in stats:
            key = (stat.pid, stat.started)
            description = last.get(key)
            if description is None or description.name != stat.name or description.until < now:
                description = self._read(stat, now, description)
            self._descriptions[key] = description
        return {pid: description for (pid, _), description in self._descriptions.items()}

    def _read(self, stat: Stat, now: float, before: Description | None) -> Description:
        if before and stat.letter in "ZX":  # a zombie has lost its command line and environment
            return Description(before.uid, before.command, before.place, stat.name, now + _RENEW_S)
        return Description(
            uid=self._uid(stat.pid),
            command=command(self._proc, stat),
            place=self._place(stat.pid),
            name=stat.name,
            until=now + _RENEW_S,
        )

    def _uid(self, pid: int) -> Reading[int]:
        try:
            return self._proc.status(pid).uid
        except OSError as error:
            return self._proc.why_unreadable(pid, error)

    def _place(self, pid: int) -> JobPlace | None:
        try:
            return place_in_job(self._proc.variables(pid))
        except OSError:
            return None


def user(proc: ProcFs, pid: int) -> Reading[str]:
    """The user's name."""
    try:
        return proc.owner(pid)
    except OSError as error:
        return proc.why_unreadable(pid, error)


def command(proc: ProcFs, stat: Stat) -> Reading[str]:
    """The command line in one line; where there is none, the process's name in brackets, as ps shows it."""
    try:
        return " ".join(proc.arguments(stat.pid)) or f"[{stat.name}]"
    except OSError as error:
        return proc.why_unreadable(stat.pid, error)
