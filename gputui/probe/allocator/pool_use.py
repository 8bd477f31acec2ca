"""Who used private pools at one moment, and where the capture of a CUDA graph may have failed.

Up to PyTorch 2.12, a capture that ends with an error, or never ends, keeps its pool in use and its device in the list
of those with a capture under way: nothing of the device's cache is returned until the process ends. From 2.13 on, only
the pool stays in use, until the graph is deleted. No call tells that a capture has failed, and the signs of it have
harmless causes, too. So where there is a sign, the forecast of what `empty_cache()` returns is a range.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import ModuleType
from typing import NamedTuple, Tuple

Pool = Tuple[int, int]
ANY_DEVICE = -1
"""Stands for the unknown device of a MemPool's or a graph's pool, which PyTorch does not report."""


def has_other_threads() -> bool:
    """Whether the program has other threads, which may capture unseen; `threading` does not know the probe's."""
    # Not active_count(): it takes a lock, which the interrupted main thread may hold.
    return len(vars(threading)["_active"]) > 1


@dataclass
class PoolUse:
    """Who uses which pool.

    `holders`: who keeps a pool ("torch.cuda.MemPool"), by (device or ANY_DEVICE, pool). `capturing`: devices with a
    capture under way; `unnamed`: those of them where the capture's pool is not known. `routing`: devices with a thread
    inside `use_mem_pool`. `is_whole`: False if the objects were not searched for. `unfinished`: how many graphs have no
    finished capture and none under way. `may_capture_unseen`: whether another thread may be capturing one of these.
    `unsure`: pools whose holder is a guess. `has_frozen`: whether `gc.freeze()` hid objects.
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
        """The holder of each of these (device, pool), which have memory; "" if none was found.

        A graph does not reveal its pool while it is being captured: the newest pool without a holder is taken for it.
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
        """The holders, with a reason in place of "" where a holder may not have been seen; those pools are unsure."""
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


UNUSED = (
    "No graph or MemPool that uses memory pool {} can be found. A CUDA graph whose capture failed may have made it."
)
UNFINISHED = (
    "The program has a torch.cuda.CUDAGraph without a finished capture. It may have failed, or go on in another thread."
)
LEFT = "The main thread has left a torch.cuda.graph without ending its capture, so that has failed."
UNSEARCHED = "Whether the capture of a CUDA graph has failed is looked for on request only."
KEPT = " A graph whose capture failed keeps its memory pool until it is deleted."
LOCKS = (
    " Before PyTorch 2.13, nothing of a device's cache is returned after a capture has failed there, until the process"
    " ends. So what empty_cache() would return is a range."
)


class Doubts(NamedTuple):
    """The devices of which possibly nothing is returned, and the pools that may or may not be returned."""

    devices: set[int]
    pools: set[tuple[int, Pool]]


class FailedCaptures:
    """Remembers when each pool was first seen without a user.

    If the cache of the pool's device was emptied since then, no capture has failed there.
    """

    def __init__(self) -> None:
        self._first_seen: dict[tuple[int, Pool], tuple[int, int]] = {}

    def look(
        self, torch: ModuleType, use: PoolUse, sizes: Mapping[tuple[int, Pool], int], devices: Iterable[int]
    ) -> tuple[dict[tuple[int, Pool], str], Doubts]:
        """The holder of each pool, "" for none, and what is in doubt; adds the reasons to `use.problems`.

        `sizes`: the bytes of each (device, private pool) with memory; `devices`: those on which PyTorch has memory.
        """
        holders = use.holders_of(sorted(sizes))
        unused = {key for key, holder in holders.items() if not holder}
        if is_routing_apart(torch):
            return holders, _of_live_graphs(use, unused, devices)
        unemptied = self._unemptied(torch, {key: sizes[key] for key in unused})
        sign = _sign(torch, use, unemptied)
        if sign:
            use.problems.append(sign + LOCKS)
        is_everywhere = sign in {UNFINISHED, LEFT}
        doubted = use.unsure | (unused if is_everywhere else unemptied)
        return holders, Doubts(set(devices) if is_everywhere else {device for device, _ in doubted}, doubted)

    def _unemptied(self, torch: ModuleType, sizes: Mapping[tuple[int, Pool], int]) -> set[tuple[int, Pool]]:
        """The pools whose device's cache was not emptied since they were first seen without a user.

        A pool that has grown had a user meanwhile, and counts as seen for the first time.
        """
        emptied = {device: _times_emptied(torch, device) for device, _ in sizes}
        now = {key: (size, emptied[key[0]]) for key, size in sizes.items()}
        seen = {key: self._first_seen.get(key, now[key]) for key in sizes}
        self._first_seen = {key: seen[key] if sizes[key] <= seen[key][0] else now[key] for key in sizes}
        return {key for key, (_, times) in self._first_seen.items() if times == emptied[key[0]]}


@lru_cache(maxsize=None)
def is_routing_apart(torch: ModuleType) -> bool:
    """Whether PyTorch tells captures from routing by `use_mem_pool`, so that routing does not keep the default pools.

    That came in the version that added statistics by private pool, which are asked for here. In the same version, a
    graph whose capture failed began to return its pool when it is deleted.
    """
    return "reserved_bytes_by_private_pools" in torch._C._cuda_memoryStats(0)


def _of_live_graphs(use: PoolUse, unused: set[tuple[int, Pool]], devices: Iterable[int]) -> Doubts:
    """What is in doubt from PyTorch 2.13 on, where a failed capture's pool is kept only while its graph lives."""
    locked = set(devices) if use.may_capture_unseen and has_other_threads() else set()
    doubted = unused if use.unfinished else set()
    if locked or doubted:
        use.problems.append(UNFINISHED + KEPT)
    return Doubts(locked, use.unsure | doubted)


def _sign(torch: ModuleType, use: PoolUse, unemptied: set[tuple[int, Pool]]) -> str:
    """A sentence about the sign that a capture may have failed; "" if there is none."""
    if use.unfinished:
        return UNFINISHED
    if not use.capturing and _is_left(torch):
        return LEFT
    if unemptied:
        return UNUSED.format(min(unemptied)[1])
    return UNSEARCHED if use.unsure and not use.is_whole else ""


def _times_emptied(torch: ModuleType, device: int) -> int:
    """How often the device's cache was emptied while nothing was being captured; always 0 if that is not known.

    It is not known in older versions, which have no `MemPool.snapshot`: they also count calls refused during a capture.
    """
    if not hasattr(getattr(torch.cuda, "MemPool", None), "snapshot"):
        return 0
    return int(torch._C._cuda_memoryStats(device).get("num_sync_all_streams", 0))


def _is_left(torch: ModuleType) -> bool:
    """Whether this thread is on the stream on which `torch.cuda.graph` captures, where a failed capture leaves it."""
    stream = torch.cuda.graph.default_capture_stream
    if stream is None:
        return False
    current = torch._C._cuda_getCurrentStream(stream.device_index)
    return bool(current[0] == stream.stream_id)
