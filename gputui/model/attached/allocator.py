"""PyTorch's CUDA caching allocator as the probe sees it, in bytes, in the terms of `torch.cuda.memory_snapshot()`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gputui.model.reading import Problem


class BlockState(str, Enum):
    """A block's state, as PyTorch's snapshot names it."""

    ACTIVE_ALLOCATED = "active_allocated"
    ACTIVE_PENDING_FREE = "active_pending_free"
    INACTIVE = "inactive"


@dataclass(frozen=True, slots=True)
class CallSite:
    """The line of the program that allocated a block: a file's path, a line number and a function's name."""

    file: str
    line: int
    function: str

    @property
    def words(self) -> str:
        """The call site in one line: the file with its last folder, the line, the function."""
        return f"{'/'.join(self.file.split('/')[-2:])}:{self.line} in {self.function}"


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a segment; PyTorch leaves an old value in the `requested_bytes` of an inactive block.

    `site` is None if no memory history was recorded when the block was allocated, or no Python code allocated it.
    """

    address: int
    size_bytes: int
    requested_bytes: int
    state: BlockState
    site: CallSite | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """One cudaMalloc, or one contiguous mapped stretch of an expandable range; its blocks tile it exactly.

    `stream` is the raw handle (0: the default stream). `pool_id` is (0, 0) for the default pools.
    """

    device: int
    address: int
    size_bytes: int
    stream: int
    is_small: bool
    is_expandable: bool
    pool_id: tuple[int, int]
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class PrivatePool:
    """The private pool of a CUDA graph or a MemPool.

    `is_freeable`: `empty_cache()` may release its segments, since nothing uses the pool any more. `holder` keeps the
    pool: "torch.cuda.CUDAGraph", "torch.cuda.MemPool", "" if not known. Unless `is_sure`, both fields may be wrong.
    """

    device: int
    pool_id: tuple[int, int]
    is_freeable: bool
    holder: str
    is_sure: bool = True


@dataclass(frozen=True, slots=True)
class AllocatorStatistics:
    """The counters of one device's allocator (`torch._C._cuda_memoryStats`): bytes now, peaks, and counts since start.

    `generation` grows with every allocation and free: if it is equal in two reads, nothing happened in between.
    """

    device: int
    requested_bytes: int
    allocated_bytes: int
    active_bytes: int
    reserved_bytes: int
    inactive_split_bytes: int
    peak_allocated_bytes: int
    peak_active_bytes: int
    peak_reserved_bytes: int
    segments: int
    blocks: int
    num_alloc_retries: int
    num_ooms: int
    num_device_alloc: int
    num_device_free: int
    generation: int


@dataclass(frozen=True, slots=True)
class AllocatorSettings:
    """How the allocator is set up: `large_page_bytes` is the page of expandable large pools (20 MiB unless set).

    `roundup_divisions` are PyTorch's 16 `roundup_power2_divisions`, for sizes below 2, 4, 8 MiB and so on; 0 and 1 mean
    no rounding, and () that they are not known. `max_non_split_rounding_bytes` is None where it is as large as a page;
    `garbage_collection_threshold` is a share of the allowed memory, 0 where it is off. `prefers_older`: of free blocks
    of the same size, PyTorch (newer versions) takes that in the oldest segment, otherwise that at the lowest address.
    """

    backend: str
    large_page_bytes: int
    max_split_bytes: int | None
    is_expandable: bool
    values: tuple[tuple[str, str], ...]
    roundup_divisions: tuple[int, ...] = ()
    max_non_split_rounding_bytes: int | None = None
    garbage_collection_threshold: float = 0.0
    prefers_older: bool = False


@dataclass(frozen=True, slots=True)
class AllocatorMap:
    """Every segment of every device at one moment, with what decides whether `empty_cache()` can release it.

    On `routed_devices`, a thread runs a capture or a `use_mem_pool`, and `empty_cache()` leaves the default pools
    alone. On `unsure_devices`, `empty_cache()` may return nothing, since a CUDA graph's capture may have failed.
    `problems` say what could not be found out about the pools.
    """

    segments: tuple[Segment, ...]
    private_pools: tuple[PrivatePool, ...]
    routed_devices: tuple[int, ...]
    settings: AllocatorSettings
    problems: tuple[Problem, ...] = ()
    unsure_devices: tuple[int, ...] = ()
