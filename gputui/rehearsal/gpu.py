"""The GPU that is not there, as `torch.cuda` and `torch.accelerator` describe it: name, memory, streams, events."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from types import SimpleNamespace
from typing import Any, Iterator, NamedTuple

import torch

from .reductions import Processors
from .requests import Requests
from .tensors import DEVICE


class Gpu(NamedTuple):
    """What a program may ask about the GPU. The default, for a check that names no GPU, is an H100."""

    name: str = "NVIDIA H100 80GB HBM3"
    total_bytes: int = 81_559 << 20
    capability: tuple[int, int] = (9, 0)
    devices: int = 1
    processors: Processors = Processors(132, 2048)

    @classmethod
    def of(cls, request: dict[str, Any]) -> Gpu:
        """The GPU of a request, in which JSON has made lists of tuples."""
        gpu = cls(**request)
        major, minor = gpu.capability
        return gpu._replace(capability=(major, minor), processors=Processors(*gpu.processors))

    @property
    def properties(self) -> Any:
        """The properties that torch.cuda.get_device_properties returns."""
        major, minor = self.capability
        return SimpleNamespace(
            name=self.name,
            major=major,
            minor=minor,
            total_memory=self.total_bytes,
            multi_processor_count=self.processors.number,
            warp_size=32,
            max_threads_per_multi_processor=self.processors.threads,
            is_integrated=0,
            is_multi_gpu_board=0,
            uuid="GPU-00000000-0000-0000-0000-000000000000",
            gcnArchName="",
        )


class Event:
    """An event of a stream, which has always happened."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.device = DEVICE

    def record(self, stream: Any = None) -> None: ...

    def wait(self, stream: Any = None) -> None: ...

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True

    def elapsed_time(self, _end: Any) -> float:
        return 1.0


class Stream:
    """A stream that never has to be waited for; the first one that is made is the default stream."""

    streams: Streams
    """The streams of the rehearsal that runs."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.stream_id = self.cuda_stream = self.streams.new_number()
        self.device = DEVICE
        self.device_index = DEVICE.index
        self.device_type = 1

    def wait_event(self, event: Any) -> None: ...

    def wait_stream(self, stream: Any) -> None: ...

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def record_event(self, event: Any = None) -> Any:
        return event or Event()

    def __enter__(self) -> Any:
        self.streams.enter(self)
        return self

    def __exit__(self, *_: Any) -> None:
        self.streams.leave()


class Streams:
    """The streams of the program: each request is recorded with its stream, as the allocator keeps streams apart."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._stack: list[Any] = []
        self._count = 0
        Stream.streams = self
        self.default = self._current = Stream()

    def new_number(self) -> int:
        """The number of a new stream, from 0."""
        self._count += 1
        return self._count - 1

    def current(self, *_: Any, **__: Any) -> Any:
        """The stream that is used now."""
        return self._current

    def set(self, stream: Any) -> None:
        """Make a stream the current one."""
        if stream is not None:
            self._current = stream
            self._requests.stream = stream.stream_id

    def enter(self, stream: Any) -> None:
        """Make a stream the current one, until `leave`."""
        self._stack.append(self._current)
        self.set(stream)

    def leave(self) -> None:
        """Go back to the stream before `enter`."""
        self.set(self._stack.pop())

    @contextlib.contextmanager
    def using(self, stream: Any) -> Iterator[None]:
        """In place of torch.cuda.stream."""
        self.enter(stream)
        try:
            yield
        finally:
            self.leave()


def answers_of(gpu: Gpu, streams: Streams) -> dict[Any, dict[str, Any]]:
    """For each module of PyTorch, what replaces its functions, by name: a value to return, or a function."""
    nothing = dict.fromkeys(
        (
            *("_lazy_init", "init", "synchronize", "empty_cache", "set_device", "ipc_collect", "manual_seed"),
            *("manual_seed_all", "seed", "seed_all", "set_rng_state", "set_rng_state_all", "reset_peak_memory_stats"),
            *("reset_max_memory_allocated", "reset_max_memory_cached", "reset_accumulated_memory_stats"),
            *("set_per_process_memory_fraction", "_sleep", "set_device_index", "set_device_idx"),
            *("_record_memory_history", "_dump_snapshot", "set_sync_debug_mode"),
        )
    )
    numbers = dict.fromkeys(
        (
            *("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_cached"),
            *("max_memory_cached", "device_memory_used", "memory_usage", "utilization", "initial_seed"),
            "is_current_stream_capturing",
        ),
        0,
    )
    seen = {"is_available": True, "is_initialized": True, "device_count": gpu.devices, "synchronize": None}
    both: dict[str, Any] = {
        **nothing,
        **numbers,
        **seen,
        "memory_stats": defaultdict(int),
        "current_stream": streams.current,
        "set_stream": streams.set,
    }
    free = gpu.total_bytes - (600 << 20), gpu.total_bytes
    cuda = {
        **both,
        "current_device": DEVICE.index,
        "is_bf16_supported": True,
        "get_device_capability": gpu.capability,
        "get_device_name": gpu.name,
        "get_device_properties": gpu.properties,
        "can_device_access_peer": True,
        "mem_get_info": free,
        "memory_summary": "",
        "memory_snapshot": [],
        "_exchange_device": DEVICE.index,
        "_maybe_exchange_device": DEVICE.index,
        "get_rng_state": lambda *_: torch.zeros(16, dtype=torch.uint8, device="cpu"),
        "get_rng_state_all": [],
        "default_stream": lambda *_: streams.default,
        "stream": streams.using,
        "Stream": Stream,
        "Event": Event,
    }
    accelerator = {
        **both,
        "current_accelerator": torch.device("cuda"),
        "current_device_index": DEVICE.index,
        "current_device_idx": DEVICE.index,
        "get_memory_info": free,
    }
    answers = {torch.cuda: cuda, torch.cuda.memory: cuda, torch.cuda.random: cuda}
    answers[torch._C] = {"_get_accelerator": torch.device("cuda")}
    if hasattr(torch, "accelerator"):
        answers[torch.accelerator] = accelerator
    return answers
