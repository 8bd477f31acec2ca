"""Inference servers of several processes: which process started them all, by the titles that they give themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from gputui.model.reading import Reading
from gputui.sources.processes.family import Family
from gputui.sources.procfs import ProcFs

TITLES = ("VLLM::", "sglang::")
TITLE_BYTES = 64


class Servers:
    """Finds the process in front of engines and workers; it has a command line of its own, and often no GPU."""

    def __init__(self, proc: ProcFs, family: Family) -> None:
        self._proc, self._family = proc, family

    def of(self, commands: Mapping[int, Reading[str]]) -> dict[int, int]:
        """The process in front of each that has others of its server beside it, by PID."""
        titled = [pid for pid, command in commands.items() if isinstance(command, str) and command.startswith(TITLES)]
        fronts = {pid: self._front(pid) for pid in titled}
        counts = Counter(fronts.values())
        return {pid: front for pid, front in fronts.items() if counts[front] > 1}

    def _front(self, pid: int) -> int:
        """The first ancestor without such a title: an engine core starts its workers, the front the engine cores."""
        for ancestor in self._family.ancestors(pid):
            if not self._is_titled(ancestor):
                return ancestor
        return pid

    def _is_titled(self, pid: int) -> bool:
        try:
            return "".join(self._proc.arguments(pid, TITLE_BYTES)[:1]).startswith(TITLES)
        except OSError:  # hidden or gone
            return False
