"""An attached process: what its probe sends."""

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

    `uuid` is "" if PyTorch does not report it (before 2.5). `visible_as` is the process's entry of
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

    `step_s` is how long the program takes from one rise to the next, None where that is not known.
    """

    device: int
    lowest_allocated_bytes: int
    highest_allocated_bytes: int
    seconds: float
    step_s: float | None = None


@dataclass(frozen=True, slots=True)
class Statistics:
    """The cheap part, sent often: counters of each device and of the host.

    `automatic` is how automatic looks are taken now: "walk", or None where none are taken.
    """

    time: float
    devices: tuple[AllocatorStatistics, ...]
    pinned_bytes: int | None
    problems: tuple[Problem, ...] = ()
    automatic: str | None = "walk"
    history: Recorder = Recorder.NOBODY
    swings: tuple[Swing, ...] = ()
    serving: Serving | None = None
    """What an inference engine in the process says of itself; None where there is none that is known."""
    groups: tuple[Launched, ...] = ()
    """The process groups that it shares with other ranks."""
    main_thread: str = ""
    """Where the program's own code is in the main thread, "train.py:23 in step"; read where there are groups."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a look cost the program: its longest stop, and the probe's processor time."""

    pause_ms: float
    probe_cpu_ms: float


class CycleMaker(str, Enum):
    """What makes a reference cycle."""

    OBJECTS = ""
    FUNCTION = "function"
    """It refers to an object that holds it."""
    FRAME = "frame"
    """A variable of a function holds the exception that keeps its frame."""
    IMPORT = "import"


@dataclass(frozen=True, slots=True)
class Cycles:
    """Cycles of one kind: `count` objects of the class `type`, and the storages that they keep, as (address, bytes).

    `closed_by` says how the references go around: "hook (train.py:14) refers to the Net that holds it". `is_least`: the
    graphs of tensors in them may keep more, as PyTorch before 2.10 does not tell what a graph has saved. `function` is
    the name of the function that makes them, if one does.
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
    """Of each object its address, that of its type, how many references to it are counted, how many it has to others.

    `referents` are the addresses of those others, one object's after the other's; `tensors` and `nodes` are the numbers
    of objects in this part that are tensors, and nodes of autograd graphs. `next` is where to go on, None after the
    last part. `reason` says why nothing was read. `is_broken`: objects may have been passed over, as Python has moved
    them meanwhile; all has to be read again. `stop_ms` is for how long the program was stopped.
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
    """What `gc.collect()` would free, proven at `time` (epoch seconds); or `reason`: why that is not known."""

    time: float
    groups: tuple[Cycles, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """The expensive part, taken on request or when something changed: the block map and the inventory of one moment.

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
    """What a viewer can have the probe do in the program."""

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

    `took_s` is the action alone. `map` is the allocator's map right before an `empty_cache()`, from which its effect is
    predicted. `collected` is how many objects `gc.collect()` found unreachable.
    """

    time: float
    name: ActionName
    took_s: float
    devices: tuple[ActionCounters, ...]
    map: AllocatorMap | None = None
    collected: int | None = None
    reason: str = ""
