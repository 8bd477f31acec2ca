"""The hazards of observing PyTorch's allocator, each with a test that fails if the probe triggers it.

| hazard | test |
| --- | --- |
| 1. snapshots take references until the process aborts | tests/probe/test_allocator.py: many looks |
| 2. counters hold the GIL while they wait for the allocator's lock | `test_hazard_2...`: with and without a viewer |
| 3. `empty_cache()` in another thread synchronises the wrong device | `test_hazards_3_4_5_8_9...` |
| 4. `max_split_size_mb` at run time frees live memory | `test_hazards_3_4_5_8_9...` |
| 5. a MemPool over expandable segments may abort when it is destroyed | `test_hazards_3_4_5_8_9...` |
| 6. `_cuda_isHistoryEnabled()` crashes before CUDA is initialised | tests/attach/test_looks.py: does not initialise |
| 7. a snapshot leaves an entry in the program's history | test_same.py: the history is the same; test_budget.py |
| 8. a second `_record_memory_history()` disorders the entries | `test_hazards_3_4_5_8_9...`; test_same.py |
| 9. blocks that wait for a stream, stale sizes of free blocks | the same; tests/probe/test_exactness.py |
| 10. history entries may have no frames | `test_hazard_10...` |

Part of hazard 2 remains, because PyTorch offers no way to read the counters without the GIL. A read in the main thread
cannot collide with that thread's own allocations. An allocation in another thread, or one in the main thread that lasts
longer than the probe waits for it (0.5 s), still blocks every thread that needs the GIL.
"""

from __future__ import annotations

import json

import pytest

from gputui.model.attached.target import Look
from tests.attach.children import Child, Python
from tests.attach.command import attach
from tests.hanging import HANGS_S

pytestmark = pytest.mark.every_torch


FORBIDDEN = """
    import contextlib, gputui.probe, os, sys, time, weakref, torch

    called = []

    def noted(name, function):
        def note(*arguments, **keywords):
            called.append(name)
            return function(*arguments, **keywords)
        return note

    BANNED = (
        "emptyCache", "llocatorSettings", "set_allocator_settings", "reset", "synchronize", "record_memory_history",
        "raw_alloc", "raw_delete", "releasePool", "beginAllocate", "endAllocate", "setMemoryFraction", "setDevice",
        "changeCurrentAllocator", "exchangeDevice", "set_sync", "attach_out_of_memory",
    )
    for name in dir(torch._C):
        if ("_cuda_" in name or "_accelerator_" in name) and any(word in name for word in BANNED):
            setattr(torch._C, name, noted(name, getattr(torch._C, name)))
    for name in ("empty_cache", "synchronize", "reset_peak_memory_stats", "current_device", "mem_get_info"):
        setattr(torch.cuda, name, noted(name, getattr(torch.cuda, name)))

    kept = [torch.empty(30 << 20, dtype=torch.uint8, device="cuda") for _ in range(4)]
    MemPool = getattr(torch.cuda, "MemPool", None)  # PyTorch 2.5 and newer
    pool = MemPool() if MemPool else type("Nothing", (), {})()
    with torch.cuda.use_mem_pool(pool) if MemPool else contextlib.nullcontext():
        pooled = torch.empty(30 << 20, dtype=torch.uint8, device="cuda")
    side = torch.cuda.Stream()
    waiting = torch.empty(30 << 20, dtype=torch.uint8, device="cuda")
    with torch.cuda.stream(side):
        waiting.add_(1)
        waiting.record_stream(side)
    gone = kept.pop()
    del gone, waiting
    if MemPool:
        MemPool.__init__ = noted("MemPool", MemPool.__init__)
    settings = str(torch.cuda.memory._snapshot().get("allocator_settings"))
    print("ready", torch.cuda.memory_reserved(), sys.getrefcount(pool), flush=True)
    called.clear()
    while not os.path.exists("done"):
        time.sleep(0.001)
    print("called", called, flush=True)
    print("settings", settings == str(torch.cuda.memory._snapshot().get("allocator_settings")), flush=True)
    print("after", torch.cuda.memory_reserved(), sys.getrefcount(pool), flush=True)
    dead = weakref.ref(pool)
    del pooled, pool
    print("pool", dead() is None, flush=True)
    sys.stdout.flush()
    os._exit(0)  # skips PyTorch's own destruction of pools, which is not under test
"""


@pytest.fixture(params=["", "expandable_segments:True"], ids=["native", "expandable"])
def program_and_looks(request: pytest.FixtureRequest, cuda_python: Python) -> tuple[Child, str, list[Look]]:
    """A program that records forbidden calls, its reserved bytes and pool references before, and looks of each kind."""
    lag = {"FAKEGPU_EVENT_LAG_MS": "600000"}
    child = cuda_python.fork(FORBIDDEN, PYTORCH_CUDA_ALLOC_CONF=request.param, **lag)
    before = child.expect("ready")
    with child.attach() as client:
        client.subscribe(0.1)
        client.ask_look("walk", when="changed")
        looks = [client.look(how) for how in ("walk", "scan", "", "walk", "scan")]
    (cuda_python.folder / "done").touch()
    return child, before, looks


def test_hazards_3_4_5_8_9_the_probe_does_not_change_the_allocator(
    program_and_looks: tuple[Child, str, list[Look]],
) -> None:
    child, before, looks = program_and_looks
    assert child.expect("called") == "[]"
    assert child.expect("settings") == "True"  # hazard 4
    assert (
        child.expect("after") == before
    )  # hazard 3: the cache is as large as before; hazard 5: no new reference to the pool
    assert child.expect("pool") == "True"  # hazard 5: it is destroyed with the program's last reference
    assert [problem for look in looks for problem in look.problems] == []
    for look in looks:  # hazard 9
        blocks = [block for segment in look.map.segments if segment.device == 0 for block in segment.blocks]
        assert {block.state for block in blocks} == {"active_allocated", "active_pending_free", "inactive"}
        (counters,) = [device for device in look.statistics if device.device == 0]
        live = [block for block in blocks if block.state == "active_allocated"]
        assert sum(block.size_bytes for block in live) == counters.allocated_bytes
        assert sum(block.requested_bytes for block in live) <= counters.requested_bytes
        active = [block for block in blocks if block.state != "inactive"]
        assert sum(block.size_bytes for block in active) == counters.active_bytes


TURNS = """
    import gputui.probe, threading, time, torch
    turns = []

    def turn():
        while True:
            time.sleep(0.001)
            turns.append(1)

    torch.empty(1, device="cuda")
    threading.Thread(target=turn, daemon=True).start()
"""
SLOW_MALLOC = (
    TURNS
    + """
    time.sleep(0.1)
    before = len(turns)
    torch.empty(30 << 20, dtype=torch.uint8, device="cuda")
    print("turns", len(turns) - before, flush=True)
"""
)


LOOKED_AT = (
    TURNS
    + """
    print("ready", flush=True)
    input()
    for _ in range(6):
        end = time.monotonic() + 0.15
        while time.monotonic() < end:
            pass
        before = len(turns)
        torch.empty(30 << 20, dtype=torch.uint8, device="cuda")
        print("turns", len(turns) - before, flush=True)
        torch.cuda.empty_cache()
"""
)


def test_hazard_2_threads_run_during_a_device_allocation_while_a_viewer_looks(cuda_python: Python) -> None:
    child = cuda_python.fork(LOOKED_AT, FAKEGPU_MALLOC_US="300000")
    child.expect("ready")
    with child.attach() as client:
        client.subscribe(0.1)
        client.ask_look(when="changed")
        child.say("go")
        messages = 0
        for _ in range(6):
            assert int(child.expect("turns")) > 5
            messages += 1 if client.receive(HANGS_S) else 0
    assert messages == 6


def test_hazard_2_threads_run_during_a_device_allocation_without_a_viewer(cuda_python: Python) -> None:
    child = cuda_python.fork(SLOW_MALLOC, FAKEGPU_MALLOC_US="500000")
    assert int(child.expect("turns")) > 5


HISTORY = """
    import gputui.probe, os, time, torch
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=100)
    kept = [torch.empty(30 << 20, dtype=torch.uint8, device="cuda") for _ in range(4)]
    print("ready", flush=True)
    while True:
        time.sleep(0.001)
"""


def test_hazard_10_a_history_without_frames_is_read(cuda_python: Python) -> None:
    child = cuda_python.fork(HISTORY)
    child.expect("ready")
    with child.attach() as client:
        for how in ("walk", "scan", ""):
            look = client.look(how)
            assert look.problems == ()
            assert len(look.map.segments) == 4
    status, output, _ = attach(str(child.pid), "--once", "--json")
    assert status == 0
    assert json.loads(output)["devices"][0]["allocator"]["allocated_bytes"] == 120 << 20
