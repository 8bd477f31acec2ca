"""The look at an out-of-memory error, in the thread that asked for the memory, before the exception is raised."""

from __future__ import annotations

import os
import sys
import threading
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from gputui.probe.allocator import allocator
from gputui.probe.allocator.emptied import places_within
from gputui.probe.allocator.memory_history import memory_history
from gputui.probe.allocator.trace_columns import describe_traces
from gputui.probe.guards.descriptors import read_file
from gputui.probe.guards.originals import get_native_id, perf_counter, wall_clock
from gputui.probe.guards.thread_frames import current_frames, stack
from gputui.probe.guards.thread_numbers import is_main_thread
from gputui.probe.looks.stops import empty_look, undisturbed
from gputui.probe.looks.torch_reader import TorchReader, attempt, device_statistics, statistics_fields
from gputui.probe.main_thread import process
from gputui.probe.objects import plain, stacks
from gputui.probe.pace.budget import Budget
from gputui.probe.pace.meter import Meter

if TYPE_CHECKING:
    from collections.abc import Callable

    from gputui.probe.allocator.emptied import Calls
    from gputui.probe.black_box.unreported import MemoryFailure

FRAMES_AT_MOST = 100
READING_MS = 200.0
"""How long map and inventory may take together: the rest of `observer.STOP_S` is for describing and writing."""
MAP_MS = 100.0
TENSORS_MS = 80.0
"""How long the inventory may take in any case: where the program records its memory history, PyTorch's map alone may
take longer than `READING_MS`, as it contains the stacks of all blocks and events."""
EVENTS_AT_MOST = 200_000
"""How many events of each device, the newest ones, a black box holds."""


class MemoryRequest(NamedTuple):
    """The arguments of PyTorch's observer; `limit_bytes` is that of the memory fraction, or the device's total."""

    device: int
    requested_bytes: int
    limit_bytes: int
    device_free_bytes: int


def request_after(torch: ModuleType, requested_bytes: int) -> MemoryRequest:
    """The request behind an error that the observer did not report; the other numbers are the current device's, now."""
    device = torch.cuda.current_device()
    free_bytes, total_bytes = torch.cuda.mem_get_info(device)
    return MemoryRequest(device, requested_bytes, total_bytes, free_bytes)


class ErrorLook:
    """Reads, when it is made, what holds the memory; `messages` then makes the file's content, in any thread.

    `error` is None in PyTorch's observer; in a look after the end, it is the error that has ended the program.
    """

    def __init__(
        self, torch: ModuleType, request: MemoryRequest, number: int, error: MemoryFailure | None = None
    ) -> None:
        self._reader = TorchReader(reads_records=True)
        self._look = empty_look([])
        self._statistics: dict[str, Any] = {}
        self._failure: dict[str, Any] = {}
        self._greeting: dict[str, Any] = {}
        self._calls: Calls = None
        describe = partial(_failure, torch, request, number, error)
        self._look["cost"] = undisturbed(partial(self._read, torch, describe), READING_MS)

    def messages(self) -> list[dict[str, Any]]:
        """The messages of a black box, as a viewer would get them."""
        recorded = self._look["map"].traces if self._look["map"] else []
        traces = [events[-EVENTS_AT_MOST:] for events in recorded]
        calls = places_within(traces, self._calls)
        self._reader.describe(self._look)
        greeting = {"type": "greeting", **self._greeting}
        messages = [greeting, {"type": "statistics", **self._statistics}, self._failure, self._look]
        return [*messages, {"type": "traces", **describe_traces(traces, calls)}] if any(traces) else messages

    def _read(self, torch: ModuleType, describe: Callable[[list[str]], dict[str, Any]]) -> None:
        problems = self._look["problems"]
        ends_at = perf_counter() + READING_MS / 1000
        blocks = sum(device["blocks"] for device in device_statistics(torch, problems))
        plan = Budget().plan("walk", blocks, MAP_MS, is_urgent=True)
        problems += plan.problems
        self._failure = describe(problems)
        has_stopped = is_main_thread() or stacks.is_in_backward_here(torch)
        has_traces = allocator.is_history_enabled(torch)
        # no walk for the users of private pools: PyTorch has already released all cached memory that it can
        self._reader.read_map(torch, self._look, has_map=plan.has_map, may_walk=False, has_traces=has_traces)
        self._calls = memory_history.emptied.so_far(torch)
        ends_at = max(ends_at, perf_counter() + TENSORS_MS / 1000)
        meter = Meter(ends_at - perf_counter(), clock=perf_counter)
        arguments = torch, plan.method, self._look, meter
        self._reader.read(*arguments, may_walk=False, has_map=False, in_main_thread=has_stopped)
        self._reader.read_unnamed(torch, self._look, ends_at)
        self._statistics = statistics_fields(torch, problems)
        self._greeting = attempt("The process", problems, process.greeting, []) or _bare_greeting()


def _bare_greeting() -> dict[str, Any]:
    """What is known without opening a file: a program that leaks descriptors may have none left."""
    return {
        "pid": os.getpid(),
        "command": " ".join(sys.argv),
        "python": sys.version.split()[0],
        "torch": "",
        "rank": None,
        "world_size": None,
        "is_cuda_initialized": True,
        "devices": [],
    }


def _failure(
    torch: ModuleType, request: MemoryRequest, number: int, error: MemoryFailure | None, problems: list[str]
) -> dict[str, Any]:
    """The fields of `gputui.model.attached.failure.Failure`."""
    device, requested_bytes, limit_bytes, device_free_bytes = request
    properties = attempt("The device", problems, torch.cuda.get_device_properties, device)
    memory = attempt("The device's memory", problems, torch.cuda.mem_get_info, device)  # as PyTorch has just asked
    total_bytes = memory[1] if memory else limit_bytes
    return {
        "type": "failure",
        "time": wall_clock(),
        "device": device,
        "requested_bytes": requested_bytes,
        "device_free_bytes": device_free_bytes,
        "device_total_bytes": total_bytes,
        "allowed_bytes": limit_bytes if limit_bytes < total_bytes else None,
        "device_name": str(getattr(properties, "name", "")),
        "hostname": os.uname().nodename,
        "thread": _thread_name(),
        "stack": _stack(torch) if error is None else error.stack,
        "asked_by": "" if error is None else error.asked,
        "backward_node": attempt("The backward node", problems, _backward_node, torch) or "",
        "is_capturing": bool(torch._C._cuda_isCurrentStreamCapturing()),
        "number": number,
    }


def _thread_name() -> str:
    """Python's name of this thread, or the kernel's for one that PyTorch has started ("pt_autograd_0")."""
    thread = threading._active.get(threading.get_ident())  # type: ignore[attr-defined]  # `current_thread` adds unknown ones
    if thread is not None:
        return str(thread.name)
    try:
        return read_file(f"/proc/self/task/{get_native_id()}/comm").decode(errors="replace").strip()
    except OSError:
        return ""


def _stack(torch: ModuleType) -> list[dict[str, Any]]:
    """The stack of this thread or, in a thread of the backward pass without Python frames, of one that waits for it."""
    innermost = stacks.frame_of_the_program()
    if innermost is None and stacks.is_in_backward_here(torch):
        innermost = next(filter(stacks.is_in_backward, current_frames().values()), None)
    rows = [(frame.f_code, frame.f_lineno or 0) for frame in stack(innermost)[:FRAMES_AT_MOST]]
    return [
        {"file": plain.text(code.co_filename), "line": line, "function": plain.text(code.co_name)}
        for code, line in rows
    ]


def _backward_node(torch: ModuleType) -> str:
    node = torch._C._current_autograd_node() if stacks.is_in_backward_here(torch) else None
    return "" if node is None else str(node.name())
