"""Corner cases of the allocator that random programs do not reach.

corners.py NAME [LOOKS]      prints what the probe reads there
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import threading
from collections.abc import Callable
from contextlib import contextmanager, suppress

import torch
from looking import look, print_json, read_map, release, statistics

from gputui.explain.memory.release import predict_device
from gputui.probe.allocator.allocator import (
    is_history_enabled,
    read_pinned_bytes,
    read_settings,
    read_statistics,
)

MIB = 1024**2
CORNERS: dict[str, Callable[[], dict]] = {}


def corner(function: Callable[[], dict]) -> Callable[[], dict]:
    CORNERS[function.__name__] = function
    return function


def make(size: int = 30 * MIB, device: int = 0) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device=f"cuda:{device}")


def read_all() -> list:
    return [
        read_statistics(torch), read_settings(torch), read_map(), read_pinned_bytes(torch),
        is_history_enabled(torch),
    ]  # fmt: skip


def predicted_and_released() -> dict:
    """The prediction for device 0, and what empty_cache() then released."""
    layout, prediction, before = look(), release(0), statistics(0)["reserved_bytes"]
    torch.cuda.empty_cache()
    return {
        "predicted": prediction.releasable_bytes,
        "released": before - statistics(0)["reserved_bytes"],
        "routed": list(layout.routed_devices),
        "pools": [[pool.device, pool.is_freeable, pool.holder] for pool in layout.private_pools],
        "problems": [problem.text for problem in layout.problems],
    }


@contextmanager
def elsewhere(enter: Callable):
    """Keep another thread inside `with enter():` while the body runs."""
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with enter():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait()
    yield
    leave.set()
    thread.join()


@corner
def before_cuda() -> dict:
    read = read_all()
    return {"read": read, "initialized": torch.cuda.is_initialized(), "context": torch._C._cuda_hasPrimaryContext(0)}


@corner
def after_a_fork() -> dict:
    make()
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, repr(read_all()).encode())
        os._exit(0)
    os.wait()
    return {"child": os.read(reader, 10_000).decode(), "parent": len(read_all()[0])}


@corner
def generation() -> dict:
    make()
    steps = [statistics()["generation"], statistics()["generation"]]
    kept = make()
    steps.append(statistics()["generation"])
    del kept
    steps.append(statistics()["generation"])
    torch.cuda.empty_cache()
    return {"steps": [*steps, statistics()["generation"]]}


@corner
def pinned() -> dict:
    make()
    kept = torch.empty(4 * MIB, dtype=torch.uint8, pin_memory=True)
    return {"pinned": read_pinned_bytes(torch), "made": kept.numel()}


def _many_looks() -> dict:
    tensors = [make(512) for _ in range(5)]
    for _ in range(100):
        read_map()
    gc.collect()
    references = [sys.getrefcount(value) for value in (False, True, None, 0, 1)]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(int(sys.argv[2])):
        read_map()
        read_statistics(torch)
    gc.collect()
    after = [sys.getrefcount(value) for value in (False, True, None, 0, 1)]
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    drift = max(abs(b - a) for b, a in zip(references, after, strict=True))
    return {"tensors": len(tensors), "drift": drift, "grown_kib": grown_kib}


@corner
def many_looks() -> dict:
    return _many_looks()


@corner
def many_looks_with_history() -> dict:
    make()
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=1000)
    return _many_looks() | {"history": is_history_enabled(torch)}


@contextmanager
def counted_walks():
    """The walks over all objects that the body makes."""
    walks: list[object] = []
    get_objects = gc.get_objects

    def counted() -> list[object]:
        walks.append(get_objects)
        return get_objects()

    gc.get_objects = counted
    yield walks
    gc.get_objects = get_objects


@corner
def walks_over_all_objects() -> dict:
    """The walks of ten looks each, added up: without a pool, with a pool in use, and after a new graph."""
    graphs, seen = [torch.cuda.CUDAGraph()], []
    make()
    with counted_walks() as walks:
        for change in (lambda: None, lambda: [into_a_pool()], lambda: graphs.append(torch.cuda.CUDAGraph())):
            kept = change()
            seen.append((kept, len(graphs)))
            for _ in range(10):
                read_map()
            seen[-1] = len(walks), *seen[-1]
    return {"walks": [count for count, *_ in seen]}


def into_a_pool() -> tuple:
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        return pool, make()


@corner
def looks_that_may_not_walk() -> dict:
    """With a pool in use, before, during and after a look that may walk: walks, is the pool freeable, problems."""
    kept = into_a_pool()
    with counted_walks() as walks:
        looks = [[len(walks), read_map(may_walk=may_walk)] for may_walk in (False, True, False)]
    summaries = [[count, taken["private_pools"][0]["is_freeable"], len(taken["problems"])] for count, taken in looks]
    return {"looks": summaries, "walks": len(walks), "kept": len(kept)}


@corner
def an_empty_pool_is_routed_to() -> dict:
    make()
    with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
        return predicted_and_released()


@corner
def capture_by_hand() -> dict:
    make()
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        graph.capture_begin()
        kept = make()
        report = predicted_and_released()
        graph.capture_end()
    return report | {"kept": kept.numel()}


@corner
def capture_in_another_thread() -> dict:
    make()
    graph = torch.cuda.CUDAGraph()
    with elsewhere(lambda: torch.cuda.graph(graph)):
        return predicted_and_released()


@corner
def capture_on_the_other_device() -> dict:
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream(1)
    with torch.cuda.device(1), torch.cuda.graph(graph, stream=stream):
        kept = make(device=1)
        with torch.cuda.device(0):
            make()
            return predicted_and_released() | {"kept": kept.numel()}


@corner
def a_graph_not_captured() -> dict:
    graph = torch.cuda.CUDAGraph()
    make()
    return predicted_and_released() | {"graph": repr(graph)}


@corner
def a_capture_that_has_ended_and_was_reset() -> dict:
    graph = torch.cuda.CUDAGraph()
    context = torch.cuda.graph(graph)
    with context:
        make()
    graph.reset()
    make()
    return predicted_and_released() | {"context": repr(context)}


@corner
def a_capture_after_a_graph_that_was_reset() -> dict:
    """Two unnamed pools: the capture keeps its own, that of the earlier graph can be released."""
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(first):
        outlived = make()
    first.reset()
    with torch.cuda.graph(second):
        make(60 * MIB)
        del outlived
        return predicted_and_released()


def range_and_released() -> list:
    """The least and the most that are predicted for device 0, what empty_cache() then released, and the problems."""
    layout, before = look(), statistics(0)["reserved_bytes"]
    prediction = predict_device(layout, 0)
    torch.cuda.empty_cache()
    released = before - statistics(0)["reserved_bytes"]
    problems = [problem.text for problem in layout.problems]
    return [[prediction.least_bytes, prediction.most_bytes], released, problems]


@corner
def a_capture_that_failed() -> dict:
    graphs = [torch.cuda.CUDAGraph()]
    make()
    with suppress(RuntimeError), torch.cuda.graph(graphs[0]):
        make()[0].item()
    looks = [range_and_released()]
    graphs.clear()
    return {"looks": [*looks, range_and_released(), range_and_released()]}


@corner
def graphs_of_a_compiled_function() -> dict:
    """The pools of torch.compile's trees of CUDA graphs, which inductor's mode="reduce-overhead" uses, too."""
    compiled = torch.compile(lambda x: (x * 2 + 1).relu(), backend="cudagraphs")
    x = torch.ones(8 * MIB, device="cuda")
    looks = []
    with torch.no_grad():
        for _ in range(3):
            kept = compiled(x)
            looks.append(range_and_released())
    del kept
    looks.append(range_and_released())
    torch._dynamo.reset()
    gc.collect()
    return {"looks": [*looks, range_and_released(), range_and_released()]}


@corner
def a_graph_that_is_gone() -> dict:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = [make()]
        make(60 * MIB)
    del graph
    looks = [range_and_released()]
    kept.clear()
    return {"looks": [*looks, range_and_released()]}


@corner
def routed_by_hand() -> dict:
    pool = torch.cuda.MemPool()
    torch._C._cuda_beginAllocateCurrentThreadToPool(0, pool.id)
    make()
    problems = look().problems
    torch._C._cuda_endAllocateToPool(0, pool.id)
    torch._C._cuda_releasePool(0, pool.id)
    return {"problems": [problem.text for problem in problems], "after": predicted_and_released()}


@corner
def a_pool_on_two_devices() -> dict:
    pool = torch.cuda.MemPool()
    for device in (0, 1):
        with torch.cuda.use_mem_pool(pool, device=device):
            make(device=device)
    return predicted_and_released()


@corner
def a_pool_inside_a_graph() -> dict:
    pool, graph = torch.cuda.MemPool(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool.id):
        make()
    del pool
    return predicted_and_released() | {"graph": repr(graph)}


@corner
def inside_inductors_pool() -> dict:
    """The context manager with which torch.compile's CUDA graphs route a warm-up."""
    from torch._inductor.cudagraph_trees import _use_cuda_memory_pool_manager

    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph):
        make()
    make()
    with _use_cuda_memory_pool_manager(0, graph.pool(), stream):
        kept = make()
        return predicted_and_released() | {"kept": kept.numel()}


@corner
def objects_hidden_by_gc_freeze() -> dict:
    pool = torch.cuda.MemPool()
    gc.freeze()
    gc.get_freeze_count = None  # it visits all that is frozen, which takes 0.1 s in a server
    late = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        make()
    return predicted_and_released() | {"late": late.id}


@corner
def settings_changed_at_run_time() -> dict:
    make()
    before = look().settings
    torch._C._accelerator_setAllocatorSettings("expandable_segments:True,roundup_power2_divisions:4")
    kept = make(33 * MIB)
    after = look().settings
    return {
        "expandable": [before.is_expandable, after.is_expandable],
        "divisions": [sum(before.roundup_divisions), sum(after.roundup_divisions)],
        "values": dict(after.values),
        "kept": kept.numel(),
    } | predicted_and_released()


@corner
def another_backend() -> dict:
    kept = make()
    settings, allocator_map = read_settings(torch), read_map()
    return {
        "backend": settings["backend"],
        "map": allocator_map,
        "statistics": len(read_statistics(torch)),
        "kept": kept.numel(),
    }


@corner
def an_allocator_of_its_own() -> dict:
    torch.cuda.memory.change_current_allocator(torch.cuda.memory.CUDAPluggableAllocator("libc.so.6", "malloc", "free"))
    return another_backend()


def main() -> None:
    print_json(CORNERS[sys.argv[1]]())
    os._exit(0)


main()
