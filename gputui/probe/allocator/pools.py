"""Finds who uses private pools, and where a CUDA graph is being captured: PyTorch's snapshot leaves both out.

Both are read from Python objects: `torch.cuda.MemPool`, `torch.cuda.CUDAGraph`, the `torch.cuda.graph` context and the
suspended generators of `use_mem_pool`. Finding these takes a walk over all objects (70 ms for 370,000). So the walk is
made only if there may be something to find (a private pool has memory, allocations are routed to a pool, or another
thread might route them), and only if the reference counts of those types have changed since the last walk. Automatic
looks never walk, and add a problem if users may be unknown.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, GeneratorType, ModuleType
from typing import Any, NamedTuple

from gputui.probe.allocator.pool_use import ANY_DEVICE, FailedCaptures, Pool, PoolUse, has_other_threads
from gputui.probe.guards.originals import thread_time
from gputui.probe.objects.attributes import AttributeReader
from gputui.probe.objects.heap import has_frozen
from gputui.probe.objects.listing import of_classes
from gputui.probe.pace.budget import on_request

# Generator functions that route a thread's allocations: module, name, and their variables with the device and the pool.
ROUTERS = (
    ("torch.cuda.memory", "use_mem_pool", "device_index", "pool"),
    ("torch._inductor.cudagraph_trees", "_use_cuda_memory_pool_manager", "device", "mem_pool"),
)

NOT_LOOKED_FOR = (
    "The users of private memory pools are searched for on request only, because that takes a walk over every Python"
    " object: until then, free memory in private pools counts as kept."
)


class _Capture(NamedTuple):
    """What is read of a `torch.cuda.graph` context."""

    cuda_graph: object
    pool: tuple[Pool, ...]
    capture_stream: Any
    stream_ctx: object

    @classmethod
    def of(cls, context: object) -> _Capture:
        """Read a context, past properties of a subclass; each field is None while its `__init__` runs."""
        attributes = AttributeReader().read(context)
        values: list[Any] = [attributes.get(name) for name in cls._fields]
        return cls(*values)


class PoolWatch:
    """Keeps weak references to the objects that the last walk found, and walks again only if there may be others."""

    def __init__(self) -> None:
        self._counts: tuple[int, ...] = ()
        self._users: list[weakref.ref[Any]] = []
        self._has_frozen = False
        self.walked_ms = 0.0
        """The processor time of the walk in the last look; 0.0 without one."""
        self.failed_captures = FailedCaptures()

    def look(self, torch: ModuleType, *, has_pools: bool, may_walk: bool = True) -> PoolUse:
        """Who uses which pool now; no other thread may run between the snapshot and this call.

        `has_pools` says whether the snapshot has private pools. Without `may_walk`, new users are not searched for.
        """
        self.walked_ms = 0.0
        is_routed = has_pools or _is_routing_seen(torch)  # before `codes` adds references to what it counts
        codes = {code: (device, pool) for code, device, pool in _router_codes()}
        watched = (*_user_types(torch), *codes)
        counts = tuple(sys.getrefcount(o) for o in watched)
        users = self._known_users(counts)
        if users is None:
            if not is_routed and not (may_walk and (has_other_threads() or not _are_counts_exact())):
                return PoolUse()
            if not may_walk:
                return _unwalked(torch)
            users, self._counts = self._walk(watched), counts
        return _use_of(torch, users, codes, has_frozen=self._has_frozen)

    def _known_users(self, counts: tuple[int, ...]) -> list[Any] | None:
        """The users that the last walk found; None if there may be others by now."""
        alive = [o for o in (reference() for reference in self._users) if o is not None]
        is_same = counts == self._counts and len(alive) == len(self._users) and _are_counts_exact()
        return alive if is_same else None

    def _walk(self, watched: tuple[Any, ...]) -> list[Any]:
        began = thread_time()
        idents = {id(o) for o in watched if issubclass(type(o), type)} | {id(GeneratorType)}
        found = of_classes(gc.get_objects, idents | {id(ModuleType)})
        users = [o for o in found if id(type(o)) in idents]
        codes = {id(o) for o in watched}
        users = [o for o in users if type(o) is not GeneratorType or id(o.gi_code) in codes]
        self._users = [weakref.ref(o) for o in users]
        self._has_frozen = has_frozen(found)
        self.walked_ms = (thread_time() - began) * 1000
        return users


def _use_of(
    torch: ModuleType, users: list[Any], codes: dict[CodeType, tuple[str, str]], *, has_frozen: bool
) -> PoolUse:
    use = PoolUse(has_frozen=has_frozen)
    contexts = [_Capture.of(o) for o in users if issubclass(type(o), torch.cuda.graph)]
    graphs = [o for o in users if issubclass(type(o), torch.cuda.CUDAGraph)]
    pools = [o for o in users if hasattr(torch.cuda, "MemPool") and issubclass(type(o), torch.cuda.MemPool)]
    for pool in pools:
        use.holders[ANY_DEVICE, _pool_id(torch, pool)] = "torch.cuda.MemPool"
    captured = {id(graph): _graph_pools(torch, graph) for graph in graphs}
    use.holders.update({(ANY_DEVICE, pool): "torch.cuda.CUDAGraph" for held in captured.values() for pool in held})
    for generator in (o for o in users if type(o) is GeneratorType):
        _add_router(torch, use, generator, *codes[generator.gi_code])
    if not all(captured.values()):
        _add_captures(torch, use, contexts, captured)
    if not use.capturing:
        _check_counts(torch, use, pools, captured)
    return use


def _unwalked(torch: ModuleType) -> PoolUse:
    use = PoolUse(problems=[on_request(NOT_LOOKED_FOR)], is_whole=False)
    _add_capture_here(torch, use)
    return use


def _is_routing_seen(torch: ModuleType) -> bool:
    """Whether this thread captures, or any thread is inside one of `ROUTERS`: their code then has more references."""
    idle = sys.getrefcount(_idle.__code__)
    busy = any(sys.getrefcount(function.__code__) != idle for function, _, _ in _routers())
    return busy or _is_capturing_here(torch)


def _idle() -> Iterator[None]:
    """A generator function that never runs: its code has as many references as the code of an idle router."""
    yield


def _graph_pools(torch: ModuleType, graph: object) -> list[Pool]:
    """The pools that a captured graph holds; [] before its capture has ended and after its reset."""
    try:
        pools = getattr(torch.cuda.CUDAGraph, "pools", None)  # newer: the graph also keeps pools routed to inside it
        own = _pair(torch.cuda.CUDAGraph.pool(graph))
        return sorted({own, *map(_pair, pools(graph))}) if pools else [own]
    except RuntimeError:  # "without a preceding successful capture"
        return []


def _pool_id(torch: ModuleType, pool: object) -> Pool:
    """The id of a MemPool, past a property of a subclass."""
    return _pair(torch.cuda.MemPool.id.__get__(pool))


def _pair(pool: Iterable[int]) -> Pool:
    first, second = pool
    return first, second


def _user_types(torch: ModuleType) -> tuple[type, ...]:
    """The types of the objects that use pools, with all their subclasses."""
    names = ("MemPool", "CUDAGraph", "graph")
    bases = [getattr(torch.cuda, name) for name in names if hasattr(torch.cuda, name)]
    return tuple(derived for base in bases for derived in _with_subclasses(base))


def _with_subclasses(base: type) -> Iterator[type]:
    yield base
    derived: type
    for derived in type.__subclasses__(base):
        yield from _with_subclasses(derived)


def _routers() -> Iterator[tuple[FunctionType, str, str]]:
    for module, name, device, pool in ROUTERS:
        function = getattr(getattr(sys.modules.get(module), name, None), "__wrapped__", None)
        if isinstance(function, FunctionType):
            yield function, device, pool


def _router_codes() -> Iterator[tuple[CodeType, str, str]]:
    return ((function.__code__, device, pool) for function, device, pool in _routers())


def _are_counts_exact() -> bool:
    """Whether reference counts can be relied on: free-threaded Python defers those of types and code objects."""
    is_gil_enabled = getattr(sys, "_is_gil_enabled", None)
    return is_gil_enabled is None or bool(is_gil_enabled())


def _add_router(
    torch: ModuleType, use: PoolUse, generator: GeneratorType[Any, Any, Any], device_name: str, pool_name: str
) -> None:
    frame = generator.gi_frame
    if frame is None or not getattr(generator, "gi_suspended", frame.f_lasti >= 0):
        return  # it has not begun, or is over
    pool = frame.f_locals[pool_name]
    pool_id = _pair(pool) if type(pool) is tuple else _pool_id(torch, pool)
    use.routing.add(frame.f_locals[device_name])
    use.holders[frame.f_locals[device_name], pool_id] = "torch.cuda.use_mem_pool"


def _add_captures(torch: ModuleType, use: PoolUse, contexts: list[_Capture], captured: dict[int, list[Pool]]) -> None:
    """Add the captures under way; `captured` has the pools of each graph by the graph's id, [] for one without."""
    open_contexts = [context for context in contexts if not captured.get(id(context.cuda_graph))]
    for context in open_contexts:
        if _is_capturing(torch, context):
            device = context.capture_stream.device_index
            use.capturing.add(device)
            use.holders.update({(device, _pair(pool)): "torch.cuda.graph" for pool in context.pool})
            use.unnamed |= set() if context.pool else {device}
    _add_capture_here(torch, use)
    without_pool = {key for key, held in captured.items() if not held}
    use.unfinished = max(0, len(without_pool) - len(use.capturing))
    without_context = without_pool - {id(c.cuda_graph) for c in open_contexts}
    if without_context and not use.capturing:
        use.may_capture_unseen = True


def _add_capture_here(torch: ModuleType, use: PoolUse) -> None:
    """Add a capture on the current stream that no `torch.cuda.graph` began: the program called `capture_begin()`."""
    current = torch._C._cuda_getDevice()
    if current not in use.capturing and _is_capturing_here(torch):
        use.capturing.add(current)
        use.unnamed.add(current)


def _is_capturing_here(torch: ModuleType) -> bool:
    return _has_context(torch, torch._C._cuda_getDevice()) and bool(torch._C._cuda_isCurrentStreamCapturing())


def _has_context(torch: ModuleType, device: int) -> bool:
    """Whether the device has a CUDA context already: asking for its current stream would create one otherwise."""
    has_context = getattr(torch._C, "_cuda_hasPrimaryContext", None)
    if has_context:
        return bool(has_context(device))
    return bool(torch._C._cuda_memoryStats(device)["reserved_bytes"]["all"]["current"])


def _is_capturing(torch: ModuleType, context: _Capture) -> bool:
    """Whether this `torch.cuda.graph` was entered and its stream is being captured; starts no work on the GPU."""
    stream, entered = context.capture_stream, getattr(context.stream_ctx, "src_prev_stream", None) is not None
    if not entered or stream.device_index != torch._C._cuda_getDevice():
        return entered  # asking about the stream would change this thread's current device
    with torch.cuda.stream(stream):
        return bool(torch._C._cuda_isCurrentStreamCapturing())


def _check_counts(torch: ModuleType, use: PoolUse, pools: list[Any], captured: dict[int, list[Pool]]) -> None:
    """Add a problem if a MemPool counts more users than are known, as when the program routes to it by hand."""
    for pool in pools if hasattr(torch.cuda, "MemPool") and hasattr(torch.cuda.MemPool, "use_count") else ():
        pool_id = _pool_id(torch, pool)
        known = 1 + sum(pool_id in held for held in captured.values())
        known += sum(1 for device, held in use.holders if held == pool_id and device != ANY_DEVICE)
        if torch.cuda.MemPool.use_count(pool) > known:
            use.problems.append(f"Memory pool {pool_id} has users that cannot be seen from Python.")
