"""The messages that a probe sends about its process."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from enum import Enum

from gputui.model.attached.allocator import AllocatorMap, AllocatorSettings, AllocatorStatistics
from gputui.model.attached.serving import Serving
from gputui.model.attached.tensors import Inventory
from gputui.model.collectives import Launched
from gputui.model.reading import Problem


@dataclass(frozen=True, slots=True)
class TorchDevice:
    """A device as the attached process numbers it: `index` is PyTorch's, `uuid` is the physical device's.

    `uuid` is "" if PyTorch does not report it (before 2.5). `visible_as` is the device's entry in the process's
    CUDA_VISIBLE_DEVICES: an index, a (shortened) UUID, or "" if the variable is not set.
    """

    index: int
    uuid: str
    visible_as: str = ""


@dataclass(frozen=True, slots=True)
class Greeting:
    """How a probe describes its process at the start of a conversation; `torch` is "" before PyTorch is imported.

    `actions` names the actions that the probe can run: none if $GPUTUI_PROBE_ACTS is 0. `collectives` is the backend of
    the default process group ("nccl"; "" without one), `libraries` are those of `protocol.libraries` that are imported.
    """

    pid: int
    command: str
    python: str
    torch: str
    rank: int | None
    world_size: int | None
    is_cuda_initialized: bool
    devices: tuple[TorchDevice, ...]
    actions: tuple[str, ...] = ()
    collectives: str = ""
    libraries: tuple[str, ...] = ()


class Recorder(str, Enum):
    """Who turned on PyTorch's memory history."""

    NOBODY = ""
    PROGRAM = "program"
    PROBE = "probe"


@dataclass(frozen=True, slots=True)
class Swing:
    """How far a device's allocated memory rose and fell in the last `seconds` (a minute at most), from many reads.

    `step_s` is the time from one rise to the next, which is a step of the program; None where it is not known.
    """

    device: int
    lowest_allocated_bytes: int
    highest_allocated_bytes: int
    seconds: float
    step_s: float | None = None


@dataclass(frozen=True, slots=True)
class Statistics:
    """The counters of each device and of the host, which are cheap to read and sent often.

    `automatic` is how automatic looks are taken now: "walk", or None where there are none.
    """

    time: float
    devices: tuple[AllocatorStatistics, ...]
    pinned_bytes: int | None
    problems: tuple[Problem, ...] = ()
    automatic: str | None = "walk"
    history: Recorder = Recorder.NOBODY
    swings: tuple[Swing, ...] = ()
    serving: Serving | None = None
    """The inference engine in the process, None if there is none that the probe knows."""
    groups: tuple[Launched, ...] = ()
    """The process groups that the process shares with other ranks."""
    main_thread: str = ""
    """The line of the program's own code in the main thread, "train.py:23 in step"; "" without `groups`."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a look cost the program: its longest stop, and the probe's processor time."""

    pause_ms: float
    probe_cpu_ms: float


class CycleMaker(str, Enum):
    """What makes a reference cycle."""

    OBJECTS = ""
    FUNCTION = "function"
    """A function refers to an object that holds the function."""
    FRAME = "frame"
    """A variable of a function holds the exception that keeps its frame."""
    IMPORT = "import"


@dataclass(frozen=True, slots=True)
class Cycles:
    """Reference cycles of one kind: `count` objects of the class `type`, and the storages they keep, (address, bytes).

    `closed_by` says how the references go around: "hook (train.py:14) refers to the Net that holds it". `is_least`: the
    autograd graphs in the cycles may keep more storages, as PyTorch before 2.10 does not tell what a graph has saved.
    `function` is the name of the function that makes the cycles, "" where none does.
    """

    device: int
    type: str
    count: int
    closed_by: str
    storages: tuple[tuple[int, int], ...]
    is_least: bool = False
    maker: CycleMaker = CycleMaker.OBJECTS
    function: str = ""


@dataclass(frozen=True, slots=True)
class ReferencesPart:
    """A part of the program's Python objects, as columns: address, address of the type, reference count, referents.

    `lengths` counts each object's referents, and `referents` has their addresses, object after object. `tensors` and
    `nodes` are the positions in this part of tensors and of nodes of autograd graphs. `next` is where to go on, None
    after the last part. `reason` says why nothing was read. `is_broken`: objects may be missing because Python has
    moved them meanwhile, so all parts have to be read again. `stop_ms` is how long the program was stopped.
    """

    addresses: array[int]
    types: array[int]
    counts: array[int]
    lengths: array[int]
    referents: array[int]
    tensors: array[int]
    nodes: array[int]
    next: tuple[int, int, int, int] | None
    reason: str
    is_broken: bool
    stop_ms: float


@dataclass(frozen=True, slots=True)
class Garbage:
    """What `gc.collect()` would free, proven at `time` (epoch seconds), or the `reason` why that is not known."""

    time: float
    groups: tuple[Cycles, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """The block map and the inventory of one moment: expensive, so taken on request or when something changed.

    `map` is None if the allocator has none (another backend, or CUDA is not initialised).
    """

    time: float
    statistics: tuple[AllocatorStatistics, ...]
    settings: AllocatorSettings | None
    map: AllocatorMap | None
    inventory: Inventory | None
    cost: Cost
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Ending:
    """A probe's last message: the program ends (with an uncaught `error`, or ""), or only the probe does."""

    is_exit: bool
    error: str = ""


class DisconnectKind(str, Enum):
    """How a conversation with a probe ended; the comments say what `Disconnect.detail` holds."""

    EXITED = "exited"
    ERROR = "error"  # the exception that ended the program
    SIGNAL = "signal"  # the signal's name
    SIGKILL = "sigkill"
    EXITED_AT_ONCE = "exited_at_once"  # the exit status, "" where it is 0 or the kernel does not report it
    VANISHED = "vanished"
    PROBE_STOPPED = "probe_stopped"
    PROBE_GONE = "probe_gone"
    UNREACHABLE = "unreachable"  # the operating system's error
    NOT_ANSWERING = "not_answering"
    TIMED_OUT = "timed_out"  # seconds that were waited
    REFUSED = "refused"  # the probe's reason
    OTHER_VERSION = "other_version"  # the probe's version of gputui
    BROKEN_PROTOCOL = "broken_protocol"  # what was wrong


@dataclass(frozen=True, slots=True)
class Disconnect:
    """How a conversation with a probe ended; `gputui.explain.moment.disconnects` makes the sentence."""

    kind: DisconnectKind
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment that the program or the viewer named."""

    time: float
    label: str


class ActionName(str, Enum):
    """The actions that a viewer can have the probe do in the program."""

    COLLECT = "collect"
    EMPTY_CACHE = "empty_cache"
    HISTORY_ON = "history_on"
    HISTORY_OFF = "history_off"
    RECORD_STEP = "record_step"


@dataclass(frozen=True, slots=True)
class ActionCounters:
    """A device's counters right before an action and right after it."""

    device: int
    reserved_before_bytes: int
    reserved_after_bytes: int
    allocated_before_bytes: int
    allocated_after_bytes: int


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The result of an action; `reason` is a sentence if it was not done, or not completely, else "".

    `took_s` is how long the action itself took. `map` is the allocator's map right before an `empty_cache()`, from
    which its effect is predicted. `collected` is how many objects `gc.collect()` found unreachable.
    """

    time: float
    name: ActionName
    took_s: float
    devices: tuple[ActionCounters, ...]
    map: AllocatorMap | None = None
    collected: int | None = None
    reason: str = ""
