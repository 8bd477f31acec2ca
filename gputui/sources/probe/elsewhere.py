"""Probes of programs in containers, whose sockets are not among our files: found by the programs' PIDs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from gputui.inject.process.foreign_files import has_same_files
from gputui.sources.at_once import at_once
from gputui.sources.probe.client import ProbeError
from gputui.sources.probe.listing import CannotAttachError, attach
from gputui.sources.probe.told import ProbeInfo, silent, told_by
from gputui.sources.probe.turns import Turns

_AGAIN_S = 60.0
"""After how long a process that had no probe is tried again."""


class ProbesElsewhere:
    """Asks the probes of processes that see other files than this one; `listing.list_probes` asks the others."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._none_until: dict[int, float] = {}
        self._with_probe: set[int] = set()
        self._turns = Turns()

    def read(self, pids: Collection[int], within_s: float, at_a_time: int | None = None) -> tuple[ProbeInfo, ...]:
        """What the probes of these processes say; `at_a_time` are asked at once, each in its turn."""
        now = self._clock()
        self._none_until = {pid: until for pid, until in self._none_until.items() if pid in pids and until > now}
        self._with_probe &= set(pids)
        candidates = [pid for pid in pids if pid not in self._none_until and not _sees_our_files(pid)]
        asked = self._turns.in_order(candidates, lambda pid: pid)
        answers = at_once(
            lambda pid: self._turns.ask(pid, lambda: self._asked(pid)), asked, time.monotonic() + within_s, at_a_time
        )
        return tuple(
            probe
            for pid, answer in zip(asked, answers, strict=True)
            for probe in ([silent(pid, "", within_s)] if answer is None else answer)
        )

    def _asked(self, pid: int) -> list[ProbeInfo]:
        """What a process's probe says, [] if it never had one."""
        try:
            with attach(pid) as client:
                self._with_probe.add(pid)
                return [told_by(client, pid, "")]
        except (CannotAttachError, ProbeError) as error:
            if pid in self._with_probe or isinstance(error, ProbeError):
                return [ProbeInfo(pid, "", None, problem=str(error))]
            self._none_until[pid] = self._clock() + _AGAIN_S
            return []


def _sees_our_files(pid: int) -> bool:
    try:
        return has_same_files(pid)
    except OSError:  # it has ended, or is another user's: then its files are out of reach, too
        return True
