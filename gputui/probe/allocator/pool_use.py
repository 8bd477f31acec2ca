"""What was found out about the users of private pools at one moment."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Tuple

Pool = Tuple[int, int]
ANY_DEVICE = -1
"""Stands for the unknown device of a MemPool's or a graph's pool, which PyTorch does not report."""


def has_other_threads() -> bool:
    """Whether the program has other threads, which may capture unseen (the probe's is not known to `threading`)."""
    # Not active_count(): it takes a lock, which the interrupted main thread may hold.
    return len(vars(threading)["_active"]) > 1


@dataclass
class PoolUse:
    """Who uses which pool.

    `holders`: who keeps a pool ("torch.cuda.MemPool"), by (device or ANY_DEVICE, pool). `capturing`: devices with a
    capture under way, and `unnamed`: those of them whose capture has a pool of its own. `routing`: devices with a
    thread inside `use_mem_pool`. `is_whole`: False if the objects were not searched for. `unfinished`: how many graphs
    have no finished capture, and none under way. `may_capture_unseen`: whether another thread may be capturing one.
    `unsure`: pools for whose holder another may have been taken. `has_frozen`: whether `gc.freeze()` hid objects.
    """

    holders: dict[tuple[int, Pool], str] = field(default_factory=dict)
    capturing: set[int] = field(default_factory=set)
    unnamed: set[int] = field(default_factory=set)
    routing: set[int] = field(default_factory=set)
    problems: list[str | dict[str, str]] = field(default_factory=list)
    unsure: set[tuple[int, Pool]] = field(default_factory=set)
    is_whole: bool = True
    has_frozen: bool = False
    unfinished: int = 0
    may_capture_unseen: bool = False

    def holders_of(self, pools: list[tuple[int, Pool]]) -> dict[tuple[int, Pool], str]:
        """The holder of each (device, pool) that has memory, "" if none was found.

        A graph does not reveal its pool while it is being captured: the newest that nothing else holds is taken for it.
        """
        holders = {key: self.holders.get(key) or self.holders.get((ANY_DEVICE, key[1]), "") for key in pools}
        for pool in sorted({pool for at, pool in self.holders if at == ANY_DEVICE}):
            devices = [device for device, other in pools if other == pool]
            if len(devices) > 1:
                self.problems.append(
                    f"Memory pool {pool} has memory on devices {devices}. PyTorch does not report on which of them it"
                    " is in use, so it counts as kept on all."
                )
        for device in self.unnamed:
            free = [key for key, holder in holders.items() if key[0] == device and key[1][1] == 0 and not holder]
            if free:
                holders[max(free)] = "torch.cuda.graph"
                self.unsure.add(max(free))
        return holders if all(holders.values()) else self._with_hidden(holders)

    def _with_hidden(self, holders: dict[tuple[int, Pool], str]) -> dict[tuple[int, Pool], str]:
        """The holders with a reason where there may be one that was not seen; those pools are unsure."""
        if self.is_whole and not self.has_frozen:
            return holders
        self.unsure |= {key for key, holder in holders.items() if not holder}
        if not self.is_whole:
            return {key: holder or "not looked for" for key, holder in holders.items()}
        self.problems.append(
            "gc.freeze() hides the users of memory pools that were created before it: pools without a visible user"
            " count as kept."
        )
        return {key: holder or "an object hidden by gc.freeze()" for key, holder in holders.items()}
