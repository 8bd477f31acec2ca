"""What the attach screens show: an attached process at one moment, with everything known about its memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gputui.model.attached.allocator import AllocatorSettings, AllocatorStatistics
from gputui.model.attached.analysis import Blocker, Bridge, DriverFacts, Outcome, Owner, Release, Room, TensorGroup
from gputui.model.attached.failure import Failure
from gputui.model.attached.serving import Serving
from gputui.model.attached.target import ActionName, Cost, Disconnect, Garbage, Greeting, Look, Mark, Recorder, Swing
from gputui.model.attached.tensors import Category, Container, Inventory, Storage
from gputui.model.attached.trace import RecordedTraces, Trace
from gputui.model.collectives import Launched
from gputui.model.machine.process import Workers
from gputui.model.reading import NOT_READ, Absent, Problem, Reading, value_of

NOT_ASKED = Absent("NVML was not asked")
NO_FACTS = DriverFacts(None, NOT_ASKED, NOT_ASKED, NOT_ASKED)


@dataclass(frozen=True, slots=True)
class DeviceLayout:
    """One device in a look: segments with their release, the owner of each live block, and sums.

    `statistics` are the counters of the look itself, so everything here is of one moment; the keys of `owners` are the
    addresses of live blocks. `by_category` adds up to `statistics.allocated_bytes`. `names_time` is when the tensors
    were read (epoch seconds): in this look, or in an earlier one if this look had no time for them; 0 if never.
    """

    statistics: AllocatorStatistics
    settings: AllocatorSettings | None
    release: Release
    owners: Mapping[int, Owner]
    by_category: Mapping[Category, int]
    groups: tuple[TensorGroup, ...]
    storages: tuple[Storage, ...]
    names_time: float = 0.0
    is_searched: bool = True
    """Whether looks have searched everything they can: no variable leads to the blocks that have no name."""

    @property
    def blockers(self) -> Iterator[Blocker]:
        """Every live block with its owner."""
        return (blocker for segment in self.release.segments for blocker in segment.blockers)

    @property
    def not_yet_bytes(self) -> int:
        """Bytes that have no name only because no look has searched for them yet."""
        newer = self.by_category.get(Category.NEWER, 0)
        return newer if self.is_searched else newer + self.by_category.get(Category.UNATTRIBUTED, 0)


@dataclass(frozen=True, slots=True)
class DeviceMoment:
    """One device of the attached process.

    `statistics` are the newest counters, `layout` is of the newest look, which may be older (None: no look so far).
    `top` is of the newest look with the most allocated memory of the last minute, or nearly the most.
    """

    index: int
    uuid: str
    statistics: AllocatorStatistics
    driver: DriverFacts = NO_FACTS
    layout: DeviceLayout | None = None
    bridge: Bridge | None = None
    room: Room | None = None
    swing: Swing | None = None
    top: DeviceLayout | None = None

    @property
    def number(self) -> str:
        """The device's number, as `device_number` writes it."""
        return device_number(self.index, self.driver.nvml_index)


def device_number(index: int, nvml_index: int | None) -> str:
    """PyTorch's index, with NVML's where it differs because of `CUDA_VISIBLE_DEVICES`: "0 (GPU 1)"."""
    return str(index) if nvml_index in (None, index) else f"{index} (GPU {nvml_index})"


@dataclass(frozen=True, slots=True)
class HostMoment:
    """The process's host memory: resident, pinned by PyTorch, and in tensors, whose storages are `storages`.

    `workers` are the child processes that load its data, None if there are none.
    """

    rss_bytes: Reading[int] = NOT_READ
    pinned_bytes: Reading[int] = NOT_READ
    tensor_bytes: Reading[int] = NOT_READ
    storages: tuple[Storage, ...] = ()
    workers: Workers | None = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the viewer itself reads about an attached process at `time` (epoch seconds), beside the probe's messages.

    `drivers` are pairs of PyTorch's device index and NVML's facts. `ended` says how the conversation ended, None
    while it goes on. `node` is the machine on which the process runs, "" for the viewer's own.
    """

    time: float
    drivers: tuple[tuple[int, DriverFacts], ...] = ()
    rss_bytes: Reading[int] = NOT_READ
    workers: Workers | None = None
    ended: Disconnect | None = None
    node: str = ""


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """The file that a moment was read from: its kind ("snapshot", "black box") and its name."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class TargetMoment:
    """An attached process at `time` (epoch seconds); its layouts are of `look`, taken at `look_time` (0: no look yet).

    `ended` says how the conversation ended, None while it goes on; after the end, the rest is what was read last.
    `pending_action` is the action that this viewer asked for and that is not done yet, `outcome` the outcome of the
    last action. The devices' `top` layouts are of `top_look`. `failure` is the out-of-memory error in a black box,
    `traces` are the allocator's traces of the devices where the file has them. `file` is None for a running process and
    for a recording. `recorded` are the traces of a step that gputui has recorded in this process.
    """

    time: float
    greeting: Greeting
    devices: tuple[DeviceMoment, ...] = ()
    host: HostMoment = HostMoment()
    marks: tuple[Mark, ...] = ()
    look_time: float = 0.0
    look_cost: Cost | None = None
    problems: tuple[Problem, ...] = ()
    ended: Disconnect | None = None
    history: Recorder = Recorder.NOBODY
    pending_action: ActionName | None = None
    outcome: Outcome | None = None
    look: Look | None = None
    failure: Failure | None = None
    traces: tuple[Trace, ...] = ()
    file: OpenedFile | None = None
    recorded: RecordedTraces | None = None
    top_look: Look | None = None
    is_top: bool = False
    """Whether the moment shows the counters and layouts of `top_look` instead of those of `look`."""
    serving: Serving | None = None
    """The inference engine in the process, None if there is none that gputui knows."""
    node: str = ""
    """The machine on which the process runs, "" for the viewer's own."""
    garbage: Garbage | None = None
    """What `gc.collect()` would free; None if that was not searched."""
    groups: tuple[Launched, ...] = ()
    """The process groups that the process shares with other ranks."""
    main_thread: str = ""
    """The line of the program's own code in the main thread; "" if not known, or if there are no other ranks."""

    @property
    def pid(self) -> int:
        """The process's PID."""
        return self.greeting.pid

    @property
    def place(self) -> str:
        """The PID; for a process on another machine "node:123"."""
        return f"{self.node}:{self.pid}" if self.node else str(self.pid)

    @property
    def inventory(self) -> Inventory | None:
        """The tensors of the look."""
        return self.look.inventory if self.look else None

    @property
    def containers(self) -> tuple[Container, ...]:
        """The containers of tensors that the look found."""
        return self.inventory.containers if self.inventory else ()

    def device(self, index: int) -> DeviceMoment | None:
        """The device that PyTorch numbers `index`."""
        return next((device for device in self.devices if device.index == index), None)

    @property
    def used_devices(self) -> tuple[DeviceMoment, ...]:
        """The devices on which PyTorch has ever reserved memory, or else the first: a rank sees all and uses one."""
        used = tuple(device for device in self.devices if device.statistics.peak_reserved_bytes)
        return used or self.devices[:1]

    @property
    def held_devices(self) -> tuple[DeviceMoment, ...]:
        """The devices on which the process holds memory, in PyTorch or outside it, or has run out of memory."""
        with_tensors = {storage.device for storage in self.inventory.storages} if self.inventory else set()
        return tuple(
            device
            for device in self.devices
            if device.statistics.reserved_bytes
            or device.statistics.num_ooms
            or value_of(device.driver.process_used_bytes)
            or device.index in with_tensors
        )


@dataclass(frozen=True, slots=True)
class CounterPoint:
    """The counters of all devices at one time, and how far they rose and fell; the timeline keeps it of each moment."""

    time: float
    statistics: tuple[AllocatorStatistics, ...] = field(default=())
    swings: tuple[Swing, ...] = field(default=())

    def of(self, device: int) -> AllocatorStatistics | None:
        """The counters of one device (PyTorch's index)."""
        return next((counted for counted in self.statistics if counted.device == device), None)

    def swing_of(self, device: int) -> Swing | None:
        """How far one device's allocated memory rose and fell."""
        return next((swing for swing in self.swings if swing.device == device), None)
