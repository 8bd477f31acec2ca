"""Containers: NVML may report the host's PIDs, which in this PID namespace belong to no process or to another one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gputui.sources.procfs import ProcFs
from gputui.sources.procfs_formats import Stat

_INITIAL_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of Linux's include/linux/proc_ns.h: the namespace that contains all others."""

_DRIVER_MAPPINGS = (b"libcuda", b"libnvidia", b"/dev/nvidia")


def is_private(proc: ProcFs) -> bool:
    """Whether this process is in another PID namespace than the machine's own; False if that is not known."""
    try:
        namespace = proc.link("self", "ns/pid")
    except OSError:
        return False
    return namespace != _INITIAL_NAMESPACE


class Strangers(NamedTuple):
    """PIDs that NVML reports and that belong to another namespace: `pids` are other processes here.

    `missing_are`: the PIDs that do not exist here belong to another namespace, too, and have not simply ended.
    """

    pids: frozenset[int]
    missing_are: bool


NO_STRANGERS = Strangers(frozenset(), missing_are=False)


class Namespace:
    """Tells NVML's PIDs of another namespace from ours; remembers which processes map the driver's files."""

    def __init__(self, proc: ProcFs, *, private: bool | None) -> None:
        self._proc = proc
        self.private = is_private(proc) if private is None else private
        self._uses_driver: dict[tuple[int, float], bool | None] = {}

    def strangers(self, named: Mapping[int, Stat | None]) -> Strangers:
        """Which of the PIDs that NVML reports are not the processes that have them here.

        If any process that we may inspect maps the driver's files, NVML reports PIDs of this namespace: a missing PID
        has ended, and a PID whose process does not map them is a stranger. If none does, and a PID is missing or its
        process does not map the driver, the whole list is the host's, and PIDs that also exist here are a coincidence.
        """
        if not self.private:
            return NO_STRANGERS
        verdicts = self._verdicts(stat for stat in named.values() if stat)
        if True in verdicts.values():
            return Strangers(frozenset(pid for pid, uses in verdicts.items() if uses is False), missing_are=False)
        if False in verdicts.values() or len(verdicts) < len(named):
            return Strangers(frozenset(verdicts), missing_are=True)
        return NO_STRANGERS

    def _verdicts(self, stats: Iterable[Stat]) -> dict[int, bool | None]:
        last, self._uses_driver = self._uses_driver, {}
        for stat in stats:
            key = (stat.pid, stat.started)
            self._uses_driver[key] = last[key] if key in last else self._maps_driver(stat.pid)
        return {pid: uses for (pid, _), uses in self._uses_driver.items()}

    def _maps_driver(self, pid: int) -> bool | None:
        """Whether a process maps the driver's files, None where we may not see its mappings."""
        try:
            return self._proc.is_any_mapped(pid, _DRIVER_MAPPINGS)
        except OSError:
            return None
