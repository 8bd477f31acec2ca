"""The allocator's trace: what happened on one device, event by event; or what a step without data asked for."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from gputui.model.attached.allocator import CallSite
from gputui.model.attached.target import Look
from gputui.protocol.trace_events import ACTIONS

(
    ALLOC,
    FREE_REQUESTED,
    FREE_COMPLETED,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    SEGMENT_MAP,
    SEGMENT_UNMAP,
    SNAPSHOT,
    OUT_OF_MEMORY,
) = range(len(ACTIONS))
"""Their numbers."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The events of one device, oldest first, as columns of equal length: a trace can hold millions.

    `addresses` holds what the device had free (bytes) where the event is an "oom". `times_us` is in microseconds since
    the epoch, 0 where PyTorch recorded none. `stacks` counts in `stack_table`, -1 where no Python stack was recorded;
    each stack begins with the innermost frame. `pools` counts in `pool_table`, PyTorch's ids of pools ((0, 0) for the
    default pools); it is empty where PyTorch recorded none (before 2.13), and -1 stands for an unknown pool.
    `is_whole` says that the recording began before the program's first allocation, so that every live block is in it.
    `empty_cache_calls` says of each `torch.cuda.empty_cache()` of the program how many "alloc" and "free_requested"
    events came before it, since a call that releases nothing leaves no event; None where the calls were not counted.
    """

    device: int
    actions: bytes
    addresses: array[int]
    sizes_bytes: array[int]
    streams: array[int]
    times_us: array[int]
    stacks: array[int]
    stack_table: tuple[tuple[CallSite, ...], ...] = ()
    is_whole: bool = False
    pools: array[int] = field(default_factory=lambda: array("h"))
    pool_table: tuple[tuple[int, int], ...] = ()
    empty_cache_calls: tuple[int, ...] | None = None

    def __len__(self) -> int:
        """How many events it holds."""
        return len(self.actions)

    def action_name(self, event: int) -> str:
        """PyTorch's name of an event."""
        return ACTIONS[self.actions[event]]


@dataclass(frozen=True, slots=True)
class RecordingCost:
    """What recording a trace cost the program: events by time before it and during it, and its longest stop."""

    before_s: float
    before_events: int
    during_s: float
    during_events: int
    stop_ms: float


@dataclass(frozen=True, slots=True)
class RecordedTraces:
    """The traces of all devices, and the look at the moment at which they end.

    `max_events` is how many events of each device were kept, the newest. `cost` is None if gputui did not record them.
    """

    traces: tuple[Trace, ...]
    look: Look
    max_events: int = 0
    cost: RecordingCost | None = None


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The requests and frees of a step, in order; nothing ran on a GPU.

    `events` holds the number of a request where it is made, and -1 - number where it is freed. By that number are
    `sizes_bytes`, `categories` (as in the attach document), `modules` (paths, "" for none), `element_bytes` (0 for what
    is no floating point), `operations` (PyTorch's names) and `lines` (of the program, with a relative path where the
    file lies below the working folder; None in a backward pass). `marks` says at which event a part begins: model,
    batch, forward, backward, optimizer; or step.
    `values_read` is how often the program read a value that nobody knows, `largest_results` how often each operation's
    result was taken for as large as it can be, because its size depends on values. `streams` are numbers by that of the
    request, 0 for the default stream. `steps` is how many steps of an optimizer a whole program has taken, None for a
    function; `is_uncompiled` says that it asked for torch.compile, which was left out. `without_weights` are names of
    models whose weights were not read. `defaults` are the numbers that the function takes where it is not told another.
    `sent` is what a rank sends to the next one, for its rehearsal.
    """

    torch: str
    events: array[int]
    sizes_bytes: array[int]
    categories: tuple[str, ...]
    modules: tuple[str, ...]
    element_bytes: bytes
    operations: tuple[str, ...]
    lines: tuple[CallSite | None, ...]
    marks: tuple[tuple[int, str], ...]
    values_read: int
    largest_results: Mapping[str, int]
    streams: array[int] = field(default_factory=lambda: array("Q"))
    steps: int | None = None
    is_uncompiled: bool = False
    without_weights: tuple[str, ...] = ()
    defaults: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    sent: tuple[str, ...] = ()
