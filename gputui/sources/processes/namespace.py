"""Containers: NVML may name PIDs of the host that mean nothing, or something else, in this PID namespace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gputui.sources.procfs import ProcFs, Stat

_INITIAL_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of Linux's include/linux/proc_ns.h: the namespace that contains all others."""

_DRIVER_MAPPINGS = (b"libcuda", b"libnvidia", b"/dev/nvidia")


def is_private(proc: ProcFs) -> bool:
    """Whether this process lives in a PID namespace below the machine's own; unknown counts as no."""
    try:
        namespace = proc.link("self", "ns/pid")
    except OSError:
        return False
    return namespace != _INITIAL_NAMESPACE


class Strangers(NamedTuple):
    """What NVML's PIDs are worth here: `pids` exist but are other processes; `missing_are` too, or have ended."""

    pids: frozenset[int]
    missing_are: bool


NO_STRANGERS = Strangers(frozenset(), missing_are=False)


class Namespace:
    """Tells NVML's PIDs of another namespace from ours. Remembers what each process maps."""

    def __init__(self, proc: ProcFs, *, private: bool | None) -> None:
        self._proc = proc
        self.private = is_private(proc) if private is None else private
        self._uses_driver: dict[tuple[int, float], bool | None] = {}

    def strangers(self, named: Mapping[int, Stat | None]) -> Strangers:
        """Which of the PIDs that NVML names are not the processes they seem.

        A driver that speaks this namespace names processes that map its libraries; then a missing one has ended. If
        none of those we may look into does, and one is missing or maps nothing of the driver's, the whole list is the
        host's, and a PID that exists in both is an accident.
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
        """None where the process is somebody else's and its mappings are not shown."""
        try:
            return self._proc.is_any_mapped(pid, _DRIVER_MAPPINGS)
        except OSError:
            return None
