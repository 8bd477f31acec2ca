"""Who uses private pools, and where a capture is under way: the two things PyTorch's snapshot does not tell.

Both are read off the live Python objects that stand for them: `torch.cuda.MemPool`, `torch.cuda.CUDAGraph`, the
`torch.cuda.graph` context and the suspended generators of `use_mem_pool`. Finding them takes a walk over every
object (10 ms for 150,000), so the walk is made only where there may be somebody to find: while a private pool has
memory, while something is routed, or while another thread might; and then only when the reference counts of their
types have moved. A look that nobody asked for goes without, and says so where it matters.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from time import thread_time
from types import CodeType, FunctionType, GeneratorType, ModuleType
from typing import Any, Protocol

from gputui.probe.budget import on_request

Pool = tuple[int, int]
ANY_DEVICE = -1
"""PyTorch does not tell on which device a MemPool or a graph holds its pool."""

# Generators that route a thread's allocations: their module, name, and the locals that hold the device and the pool.
ROUTERS = (
    ("torch.cuda.memory", "use_mem_pool", "device_index", "pool"),
    ("torch._inductor.cudagraph_trees", "_use_cuda_memory_pool_manager", "device", "mem_pool"),
)

NOT_LOOKED_FOR = (
    "Who uses memory pools is looked for on request only, for it takes a walk over every Python object: until then"
    " what is free in private pools counts as kept."
)


class Capture(Protocol):
    """What is read of a `torch.cuda.graph` context."""

    cuda_graph: object
    pool: tuple[Pool, ...]
    capture_stream: Any
    stream_ctx: object


@dataclass
class PoolUse:
    """What was found.

    `holders`: in words, by (device or ANY_DEVICE, pool). `capturing`: devices with a capture under way; `unnamed`
    those of them whose capture has a pool of its own. `routing`: devices with a thread inside `use_mem_pool`.
    `is_whole`: False where the objects were not looked for. `may_capture_unseen`: whether some thread may capture in a
    way that cannot be seen.
    """

    holders: dict[tuple[int, Pool], str] = field(default_factory=dict)
    capturing: set[int] = field(default_factory=set)
    unnamed: set[int] = field(default_factory=set)
    routing: set[int] = field(default_factory=set)
    problems: list[str | dict[str, str]] = field(default_factory=list)
    is_whole: bool = True
    may_capture_unseen: bool = False

    def holders_of(self, seen: list[tuple[int, Pool]]) -> dict[tuple[int, Pool], str]:
        """The holder of each (device, pool) that has memory, "" where nobody was found.

        A graph does not tell its pool while it is being captured: it is the newest that nobody else holds.
        """
        holders = {key: self.holders.get(key) or self.holders.get((ANY_DEVICE, key[1]), "") for key in seen}
        for pool in sorted({pool for at, pool in self.holders if at == ANY_DEVICE}):
            devices = [device for device, seen_pool in seen if seen_pool == pool]
            if len(devices) > 1:
                self.problems.append(
                    f"Memory pool {pool} has memory on devices {devices}: PyTorch does not tell on which of them its"
                    " user keeps it, so it is taken as kept on all."
                )
        for device in self.unnamed:
            free = [key for key, holder in holders.items() if key[0] == device and key[1][1] == 0 and not holder]
            if free:
                holders[max(free)] = "torch.cuda.graph"
        if not self.is_whole:
            return {key: holder or "not looked for" for key, holder in holders.items()}
        if gc.get_freeze_count() and not all(holders.values()):
            self.problems.append("gc.freeze() hides who made memory pools before it: those without a user are kept.")
            holders = {key: holder or "an object hidden by gc.freeze()" for key, holder in holders.items()}
        return holders


class PoolWatch:
    """Keeps weak references to the objects found, and walks again only when there may be others."""

    def __init__(self) -> None:
        self._counts: tuple[int, ...] = ()
        self._found: list[weakref.ref[Any]] = []
        self.walked_ms = 0.0
        """The processor time that walking took in the last look."""

    def look(self, torch: ModuleType, *, has_pools: bool, may_walk: bool = True) -> PoolUse:
        """Who holds what at this moment; call it where no other thread can run in between, with the snapshot.

        `has_pools` says whether the snapshot has private pools. Without `may_walk` nobody is found who was not known.
        """
        self.walked_ms = 0.0
        is_routed = has_pools or _is_routing_seen(torch)  # before `codes` below refers to what is counted there
        codes = {code: (device, pool) for code, device, pool in _router_codes()}
        watched = (*_kinds(torch), *codes)
        counts = tuple(sys.getrefcount(o) for o in watched)
        found = self._known(counts)
        if found is None:
            if not is_routed and not (may_walk and _may_be_routed_elsewhere()):
                return PoolUse()
            if not may_walk:
                return _unwalked(torch)
            found, self._counts = self._walk(watched), counts
        return _use_of(torch, found, codes)

    def _known(self, counts: tuple[int, ...]) -> list[Any] | None:
        """What was found last, where there is nothing else to find."""
        alive = [o for o in (reference() for reference in self._found) if o is not None]
        is_same = counts == self._counts and len(alive) == len(self._found) and _are_counts_telling()
        return alive if is_same else None

    def _walk(self, watched: tuple[Any, ...]) -> list[Any]:
        began = thread_time()
        kinds = {o for o in watched if isinstance(o, type)} | {GeneratorType}
        codes = {o for o in watched if isinstance(o, CodeType)}
        found = [o for o in gc.get_objects() if type(o) in kinds]  # not isinstance: a proxy may run somebody's code
        found = [o for o in found if type(o) is not GeneratorType or o.gi_code in codes]
        self._found = [weakref.ref(o) for o in found]
        self.walked_ms = (thread_time() - began) * 1000
        return found


def _use_of(torch: ModuleType, found: list[Any], codes: dict[CodeType, tuple[str, str]]) -> PoolUse:
    use = PoolUse()
    contexts = [o for o in found if isinstance(o, torch.cuda.graph)]
    graphs = [o for o in found if isinstance(o, torch.cuda.CUDAGraph)]
    pools = [o for o in found if hasattr(torch.cuda, "MemPool") and isinstance(o, torch.cuda.MemPool)]
    for pool in pools:
        use.holders[ANY_DEVICE, _pair(pool.id)] = "torch.cuda.MemPool"
    captured = {id(graph): _graph_pools(torch, graph) for graph in graphs}
    use.holders |= {(ANY_DEVICE, pool): "torch.cuda.CUDAGraph" for held in captured.values() for pool in held}
    for generator in (o for o in found if isinstance(o, GeneratorType)):
        _add_router(use, generator, *codes[generator.gi_code])
    if not all(captured.values()):
        _add_captures(torch, use, contexts, captured)
    if not use.capturing:
        _check_counts(use, pools, captured)
    return use


def _unwalked(torch: ModuleType) -> PoolUse:
    use = PoolUse(problems=[on_request(NOT_LOOKED_FOR)], is_whole=False)
    _add_capture_here(torch, use)
    return use


def _is_routing_seen(torch: ModuleType) -> bool:
    """Whether this thread captures, or any is inside one of `ROUTERS`, as the references to their code tell."""
    idle = sys.getrefcount(_idle.__code__)
    busy = any(sys.getrefcount(function.__code__) != idle for function, _, _ in _routers())
    return busy or _is_capturing_here(torch)


def _idle() -> Iterator[None]:
    """A generator function that nobody runs, to compare references with."""
    yield


def _may_be_routed_elsewhere() -> bool:
    """Whether there are threads, which may capture unseen; the probe's is not among those of `threading`."""
    # Not active_count(): it takes a lock, which the interrupted main thread may hold.
    return len(vars(threading)["_active"]) > 1 or not _are_counts_telling()


def _graph_pools(torch: ModuleType, graph: object) -> list[Pool]:
    """The pools a captured graph holds; [] before its capture has ended and after its reset."""
    try:
        ask = getattr(torch.cuda.CUDAGraph, "pools", None)  # newer: a graph retains what use_mem_pool routed into it
        own = _pair(torch.cuda.CUDAGraph.pool(graph))
        return sorted({own, *map(_pair, ask(graph))}) if ask else [own]
    except RuntimeError:  # "without a preceding successful capture"
        return []


def _pair(pool: Iterable[int]) -> Pool:
    first, second = pool
    return first, second


def _kinds(torch: ModuleType) -> tuple[type, ...]:
    """The types of the objects that use pools, with the subclasses a program derived from them."""
    names = ("MemPool", "CUDAGraph", "graph")
    return tuple(kind for name in names if hasattr(torch.cuda, name) for kind in _family(getattr(torch.cuda, name)))


def _family(kind: type) -> Iterator[type]:
    yield kind
    derived: type
    for derived in kind.__subclasses__():
        yield from _family(derived)


def _routers() -> Iterator[tuple[FunctionType, str, str]]:
    for module, name, device, pool in ROUTERS:
        function = getattr(getattr(sys.modules.get(module), name, None), "__wrapped__", None)
        if isinstance(function, FunctionType):
            yield function, device, pool


def _router_codes() -> Iterator[tuple[CodeType, str, str]]:
    return ((function.__code__, device, pool) for function, device, pool in _routers())


def _are_counts_telling() -> bool:
    """Free-threaded Python defers reference counts of types and code."""
    is_gil_enabled = getattr(sys, "_is_gil_enabled", None)
    return is_gil_enabled is None or bool(is_gil_enabled())


def _add_router(use: PoolUse, generator: GeneratorType[Any, Any, Any], device_name: str, pool_name: str) -> None:
    frame = generator.gi_frame
    if frame is None or not getattr(generator, "gi_suspended", frame.f_lasti >= 0):
        return  # not begun, or over
    pool = frame.f_locals[pool_name]
    pool_id = _pair(getattr(pool, "id", pool))
    use.routing.add(frame.f_locals[device_name])
    use.holders[frame.f_locals[device_name], pool_id] = "torch.cuda.use_mem_pool"


def _add_captures(torch: ModuleType, use: PoolUse, contexts: list[Capture], captured: dict[int, list[Pool]]) -> None:
    """Captures under way, where some graph has no pool yet (`captured`: pools by the graph's id)."""
    open_contexts = [context for context in contexts if not captured.get(id(context.cuda_graph))]
    for context in open_contexts:
        if _is_capturing(torch, context):
            device = context.capture_stream.device_index
            use.capturing.add(device)
            use.holders.update({(device, _pair(pool)): "torch.cuda.graph" for pool in context.pool})
            use.unnamed |= set() if context.pool else {device}
    _add_capture_here(torch, use)
    without_context = {key for key, held in captured.items() if not held} - {id(c.cuda_graph) for c in open_contexts}
    if without_context and not use.capturing:
        use.may_capture_unseen = True
        use.problems.append(
            "A torch.cuda.CUDAGraph holds no capture: one that another thread has begun with capture_begin() cannot"
            " be seen, and empty_cache() would leave the default pools alone."
        )


def _add_capture_here(torch: ModuleType, use: PoolUse) -> None:
    """A capture on the current stream that no context tells of: it was begun by capture_begin()."""
    current = torch._C._cuda_getDevice()
    if current not in use.capturing and _is_capturing_here(torch):
        use.capturing.add(current)
        use.unnamed.add(current)


def _is_capturing_here(torch: ModuleType) -> bool:
    return _has_context(torch, torch._C._cuda_getDevice()) and bool(torch._C._cuda_isCurrentStreamCapturing())


def _has_context(torch: ModuleType, device: int) -> bool:
    """Whether a question about the device's current stream would find a CUDA context and not make one."""
    ask = getattr(torch._C, "_cuda_hasPrimaryContext", None)
    return bool(ask(device) if ask else torch._C._cuda_memoryStats(device)["reserved_bytes"]["all"]["current"])


def _is_capturing(torch: ModuleType, context: Capture) -> bool:
    """Whether this `torch.cuda.graph` has been entered and its stream is being captured (a question, no work)."""
    stream, entered = context.capture_stream, getattr(context.stream_ctx, "src_prev_stream", None) is not None
    if not entered or stream.device_index != torch._C._cuda_getDevice():
        return entered  # to ask would make this thread change its device
    with torch.cuda.stream(stream):
        return bool(torch._C._cuda_isCurrentStreamCapturing())


def _check_counts(use: PoolUse, pools: list[Any], captured: dict[int, list[Pool]]) -> None:
    """A MemPool counts its users: more than the ones we know means somebody routes by hand."""
    for pool in (pool for pool in pools if hasattr(pool, "use_count")):
        pool_id = _pair(pool.id)
        known = 1 + sum(pool_id in held for held in captured.values())
        known += sum(1 for device, held in use.holders if held == pool_id and device != ANY_DEVICE)
        if pool.use_count() > known:
            use.problems.append(f"Memory pool {pool_id} has users that cannot be seen from Python.")
