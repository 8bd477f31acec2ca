"""What `gputui.explain` concludes about an attached process; sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass, field

from gputui.model.attached.allocator import AllocatorStatistics, Block, Segment
from gputui.model.attached.owners import NOBODY, Keeper, OwnerName
from gputui.model.attached.target import ActionName
from gputui.model.attached.tensors import Category
from gputui.model.reading import Absent, Reading
from gputui.model.weight import Weight


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a live block; the fields have the meaning that they have in `Storage`."""

    category: Category
    name: OwnerName
    type: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = ""
    saved_by: str = ""
    module: str = ""
    keeper: Keeper = Keeper.NONE
    kept_by: OwnerName = NOBODY
    hidden_bytes: int = 0
    """How much of the storage no tensor covers."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """A live block that keeps its segment or pages; freeing this block alone would release `releases_bytes` more."""

    block: Block
    owner: Owner
    releases_bytes: int


@dataclass(frozen=True, slots=True)
class SegmentRelease:
    """What `empty_cache()` does with a segment.

    `ranges` are the (first, end) addresses that it would return. It would return `held_bytes`, too, if `held_by`
    ("torch.cuda.MemPool", "a capture", ...) did not keep the segment's pool.
    """

    segment: Segment
    releasable_bytes: int
    stuck_bytes: int
    blockers: tuple[Blocker, ...]
    ranges: tuple[tuple[int, int], ...]
    held_bytes: int = 0
    held_by: str = ""


@dataclass(frozen=True, slots=True)
class Composition:
    """Each reserved byte counted once: the six fields add up to what the allocator has reserved."""

    requested_bytes: int
    rounding_bytes: int
    pending_bytes: int
    stuck_bytes: int
    private_pool_free_bytes: int
    releasable_bytes: int

    @property
    def reserved_bytes(self) -> int:
        held = self.requested_bytes + self.rounding_bytes + self.pending_bytes
        return held + self.stuck_bytes + self.private_pool_free_bytes + self.releasable_bytes


@dataclass(frozen=True, slots=True)
class Release:
    """What `empty_cache()` would do on one device now.

    It returns `least_bytes` to `most_bytes`, which differ only where it is not known whether something keeps a pool;
    `segments` and `composition` then describe the likely case.
    """

    device: int
    segments: tuple[SegmentRelease, ...]
    composition: Composition
    least_bytes: int
    most_bytes: int

    @property
    def releasable_bytes(self) -> int:
        return self.composition.releasable_bytes

    @property
    def stuck_segments(self) -> tuple[SegmentRelease, ...]:
        """Those with free memory that live blocks keep. In `composition`, what a capture keeps counts as stuck, too."""
        return tuple(s for s in self.segments if s.stuck_bytes and s.blockers and not s.held_by)

    @property
    def stuck_bytes(self) -> int:
        """The free bytes that live blocks keep."""
        return sum(segment.stuck_bytes for segment in self.stuck_segments)


@dataclass(frozen=True, slots=True)
class TensorGroup:
    """Live blocks of one category, type, shape and element type; `bytes` counts whole blocks."""

    category: Category
    type: str
    shape: tuple[int, ...]
    dtype: str
    count: int
    bytes: int
    names: tuple[OwnerName, ...]
    hidden_bytes: int = 0
    """How much of `bytes` no tensor covers: small views keep large storages."""
    saved_bytes: int = 0
    """How much of `bytes` operations have saved for a backward pass."""


@dataclass(frozen=True, slots=True)
class Bridge:
    """The levels from what NVML reports down to what the program requested, each a part of the one before.

    `other_processes_bytes` is what the device's other processes use, `outside_torch_bytes` what this process uses
    beyond PyTorch's reserved memory.
    """

    device: int
    device_used_bytes: Reading[int]
    process_used_bytes: Reading[int]
    other_processes_bytes: Reading[int]
    outside_torch_bytes: Reading[int]
    reserved_bytes: int
    inactive_bytes: int
    active_bytes: int
    pending_bytes: int
    allocated_bytes: int
    rounding_bytes: int
    requested_bytes: int


@dataclass(frozen=True, slots=True)
class Room:
    """The largest tensor that could be allocated on the default stream: now, and after the cache was released,
    which PyTorch does by itself before an allocation fails."""

    device: int
    now_bytes: int
    after_release_bytes: int


@dataclass(frozen=True, slots=True)
class Visitor:
    """Another process that holds a little memory on this device (`used_bytes`), and more on another device."""

    pid: int
    used_bytes: int
    elsewhere_bytes: int


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """What NVML reports of the physical device behind a PyTorch index, and of the process on it.

    `device_total_bytes` is used + free + driver-reserved, while the total of cudaMemGetInfo is used + free. `visitors`
    are processes that work on another device and hold no more than a CUDA context on this one.
    """

    nvml_index: int | None
    device_total_bytes: Reading[int]
    device_used_bytes: Reading[int]
    process_used_bytes: Reading[int]
    device_free_bytes: Reading[int] = Absent("NVML was not asked")
    utilization_percent: Reading[int] = Absent("NVML was not asked")
    visitors: tuple[Visitor, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an action in the program, in sentences: what was predicted, what happened, how long it took.

    `is_as_predicted` is also False if the action was not done.
    """

    time: float
    name: ActionName
    sentences: tuple[str, ...]
    is_as_predicted: bool


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened to one device of a process between two moments.

    `came` (allocated since) and `went` (freed since) are groups of live blocks, the largest first; where blocks cannot
    be compared, both are () and `problem` says why. `before` and `after` are the counters of the two looks: their
    allocated bytes differ by `came` less `went`. `stayed_bytes` is the size of blocks that were live at both moments.
    """

    before: AllocatorStatistics
    after: AllocatorStatistics
    came: tuple[TensorGroup, ...] = ()
    went: tuple[TensorGroup, ...] = ()
    stayed_bytes: int = 0
    problem: str = ""

    @property
    def came_bytes(self) -> int:
        """The size of all blocks that came."""
        return sum(group.bytes for group in self.came)

    @property
    def went_bytes(self) -> int:
        """The size of all blocks that went."""
        return sum(group.bytes for group in self.went)


@dataclass(frozen=True, slots=True)
class Finding:
    """`kind` is the rule's name, which the table of rules sets; `evidence` are sentences with numbers.

    `remedy` is "" if there is nothing to do. `bytes` is how much memory the finding is about, 0 for none, of the host
    if `is_on_host`. `addresses` are the segments or blocks that it points at, the largest first, and `owners` their
    names; `screen` ("map", "tensors" or "memory", "" for none) shows them. `needs_look`: a look that the user asks for
    would tell more.
    """

    kind: str = field(default="", kw_only=True)
    weight: Weight
    title: str
    evidence: tuple[str, ...]
    remedy: str = ""
    bytes: int = 0
    is_on_host: bool = False
    screen: str = ""
    needs_look: bool = False
    addresses: tuple[int, ...] = ()
    owners: tuple[str, ...] = ()
    until: float = 0.0
    """When the finding was last true (epoch seconds), if it no longer is; otherwise 0."""
