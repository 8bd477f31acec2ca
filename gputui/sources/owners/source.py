"""Owners of processes, read in a thread of their own, so that no look has to wait."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from gputui.model.machine.owner import Owner
from gputui.model.reading import NOT_READ, Absent, Reading
from gputui.sources.owners.reader import NodeFiles, OwnerReader, Subject, read_node_files
from gputui.sources.procfs import ProcFs

_RENEW_S = 30.0
_STUCK_S = 2.0
_STUCK = Absent("its files in /proc do not answer")


class _Known(NamedTuple):
    """An owner, the subject for which it holds (None: any), and until when (monotonic clock)."""

    owner: Reading[Owner]
    subject: Subject | None
    until: float


_NOTHING = _Known(NOT_READ, None, float("-inf"))


class Owners:
    """Keeps the owners of the processes that looks ask for.

    A thread reads what is due, and ends. If a process's files keep it waiting, the thread is left behind, and that
    process is not read again; if the node's files do, owners are read without these until they answer. `patience_s` is
    how long all looks together wait, for a program that looks once.
    """

    def __init__(
        self,
        proc: ProcFs,
        patience_s: float = 0.0,
        node_files: Callable[[], NodeFiles] = read_node_files,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = OwnerReader(proc, node_files)
        self._patience_s = patience_s
        self._clock = clock
        self._known: dict[tuple[int, float], _Known] = {}
        self._work: _Work | None = None
        self._at_node_files: threading.Thread | None = None
        """The last thread that was left behind at the files of the node."""

    def look(self, subjects: Iterable[Subject]) -> Mapping[int, Reading[Owner]]:
        """The owners that are known by now, by PID."""
        now = self._clock()
        self._take(now)
        known = {subject: self._known.get(subject.identity, _NOTHING) for subject in subjects}
        due = [subject for subject, one in known.items() if one.until <= now or one.subject not in (subject, None)]
        self._known = {subject.identity: one for subject, one in known.items()}
        if due and self._work is None:
            do_files_answer = self._at_node_files is None or not self._at_node_files.is_alive()
            self._work = _Work(self._reader, due, self._clock, has_node_files=do_files_answer)
            if self._patience_s > 0:
                self._work.thread.join(self._patience_s)
                self._patience_s -= self._clock() - now
                self._take(self._clock())
        return {pid: one.owner for (pid, _), one in self._known.items()}

    def _take(self, now: float) -> None:
        """Take what the thread has read so far; if it is stuck, give it up, and with it the process that it reads."""
        work = self._work
        if work is None:
            return
        has_ended, at = not work.thread.is_alive(), work.at
        while work.found:
            subject, owner = work.found.popleft()
            if subject.identity in self._known:
                self._known[subject.identity] = _Known(owner, subject, now + _RENEW_S)
        if has_ended:
            self._work = None
        elif now - at.since > _STUCK_S:
            work.is_abandoned = True
            if at.subject is None:
                self._at_node_files = work.thread
            else:
                self._known[at.subject.identity] = _Known(_STUCK, None, float("inf"))
            self._work = None


class _At(NamedTuple):
    """The process that a thread reads, None for the files of the node, and since when (monotonic clock)."""

    subject: Subject | None
    since: float


class _Work:
    """A thread that reads the owners of some processes."""

    def __init__(
        self, reader: OwnerReader, subjects: list[Subject], clock: Callable[[], float], *, has_node_files: bool
    ) -> None:
        self._reader, self._subjects, self._clock = reader, subjects, clock
        self._has_node_files = has_node_files
        self.found: deque[tuple[Subject, Reading[Owner]]] = deque()
        self.at = _At(None, clock())
        self.is_abandoned = False
        self.thread = threading.Thread(target=self._run, name="gputui-owners", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        files = self._reader.node_files() if self._has_node_files else NodeFiles({}, {})
        for subject in self._subjects:
            self.at = _At(subject, self._clock())
            owner = self._reader.read(subject, files)
            if self.is_abandoned:
                return
            self.found.append((subject, owner))
