"""Finds orphans: processes whose parent has ended and that init has taken over, though nobody wanted that.

A program that somebody has put into the background (nohup, setsid, a daemon) also has init as its parent, but it leads
its own process group. A rank of a job leads a group, too, but is never put into the background.
"""

from __future__ import annotations

from gputui.sources.procfs import ProcFs
from gputui.sources.procfs_formats import Stat

_INIT = frozenset({"systemd", "init"})
"""Names of an init; `systemd --user` takes over the orphans of a session."""


class Orphans:
    """Tells which processes are orphans; remembers which parents are an init."""

    def __init__(self, proc: ProcFs) -> None:
        self._proc = proc
        self._is_init: dict[int, bool] = {}

    def has(self, stat: Stat, *, is_rank: bool) -> bool:
        """Whether this process is an orphan."""
        if not (stat.parent_pid == 1 or self._is_taken_over(stat.parent_pid)):
            return False
        if is_rank and self._is_taken_over(stat.parent_pid):
            return True
        is_leader = stat.group_pid in (stat.pid, 0)
        return not is_leader and self._proc.stat(stat.group_pid) is None

    def _is_taken_over(self, parent_pid: int) -> bool:
        """Whether a parent is an init by its name; PID 1 of a container may be the program that started everything."""
        if parent_pid not in self._is_init:
            if len(self._is_init) > 10_000:
                self._is_init.clear()
            parent = self._proc.stat(parent_pid)
            self._is_init[parent_pid] = parent is not None and parent.name in _INIT
        return self._is_init[parent_pid]
