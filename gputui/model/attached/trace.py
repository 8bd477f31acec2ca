"""The allocator's trace: what happened on one device, event by event. The requests of a rehearsed step."""

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
"""The numbers of the events, by their place in `ACTIONS`."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The events of one device, oldest first, as columns of equal length: a trace can hold millions.

    For an "oom" event, `addresses` holds what the device had free (bytes). `times_us` is in microseconds since the
    epoch, 0 where PyTorch recorded none. `stacks` are places in `stack_table`, -1 where no Python stack was recorded;
    each stack begins with the innermost frame. `pools` are places in `pool_table`, which has PyTorch's ids of pools
    ((0, 0) for the default pools); `pools` is empty where PyTorch recorded none (before 2.13), and -1 is an unknown
    pool. `is_whole`: the recording began before the first allocation, so the allocation of each live block is in it.
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
    """What recording a trace cost the program: how many events came in what time before and during it; longest stop."""

    before_s: float
    before_events: int
    during_s: float
    during_events: int
    stop_ms: float


@dataclass(frozen=True, slots=True)
class RecordedTraces:
    """The traces of all devices, and the look at the moment at which they end.

    `max_events` is how many events of each device, the newest, were kept. `cost` is None if gputui did not record them.
    """

    traces: tuple[Trace, ...]
    look: Look
    max_events: int = 0
    cost: RecordingCost | None = None


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The memory requests and frees of a step in order, on tensors without data; nothing ran on a GPU.

    `events` holds the number of a request where it is made, and -1 - number where it is freed. This number is the place
    in `sizes_bytes`, `categories` (as in the attach document), `modules` (paths, "" for none), `element_bytes` (0 where
    it is not floating point), `operations` (PyTorch's names), `streams` (0: the default stream) and `lines` (of the
    program, with a relative path where the file lies below the working folder; None in a backward pass). `marks` says
    at which event a part begins: model, batch, forward, backward, optimizer; or step.
    `values_read` is how often the program read a value, which nobody knows; `largest_results` how often each
    operation's result was taken to be as large as possible, because its size depends on values. `steps` is how many
    optimizer steps a whole program has taken, None for a function; `is_uncompiled`: it asked for torch.compile, which
    was left out. `without_weights` are names of models whose weights were not read. `defaults` are the default numbers
    of the function's arguments. `sent` is what a rank sends to the next one, as input for the rehearsal of that rank.
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
