"""A process that is attached to: what its probe says, and what NVML says about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gputui.model.allocator import AllocatorMap, AllocatorSettings, AllocatorStatistics
from gputui.model.reading import Problem
from gputui.model.tensors import Inventory


@dataclass(frozen=True, slots=True)
class TorchDevice:
    """A device as the attached process numbers it: `index` is PyTorch's, `uuid` is the physical device's.

    `uuid` is "" where PyTorch does not tell (before 2.5). `visible_as` is the process's entry of CUDA_VISIBLE_DEVICES:
    an index, a (shortened) UUID, or "" where the variable is not set.
    """

    index: int
    uuid: str
    visible_as: str = ""


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a probe says of its process at the start of a conversation; `torch` is "" before PyTorch is imported.

    `actions` names the actions that the probe takes: none where $GPUTUI_PROBE_ACTS is 0, and in older probes.
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


class Recorder(str, Enum):
    """Who has PyTorch record its memory history."""

    NOBODY = ""
    PROGRAM = "program"
    PROBE = "probe"


@dataclass(frozen=True, slots=True)
class Statistics:
    """The cheap part, sent often: counters of each device and of the host.

    `automatic` is what looks are that nobody asks for: "walk", "" (without the inventory) or None (not taken at all).
    """

    time: float
    devices: tuple[AllocatorStatistics, ...]
    pinned_bytes: int | None
    problems: tuple[Problem, ...] = ()
    automatic: str | None = "walk"
    history: Recorder = Recorder.NOBODY


@dataclass(frozen=True, slots=True)
class Cost:
    """What a look cost the program: the longest time other threads could not run, and the probe's processor time."""

    pause_ms: float
    probe_cpu_ms: float


@dataclass(frozen=True, slots=True)
class Look:
    """The dear part, taken when asked for or when something changed: the block map and the inventory of one moment.

    `map` is None where the allocator has none to show (another backend, CUDA not initialised).
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
    """A probe's last word: the program ends (by `error`, "" where none was left uncaught), or the probe alone."""

    is_exit: bool
    error: str = ""


class DisconnectKind(str, Enum):
    """How a conversation with a probe ended; the comments say what `Disconnect.detail` holds."""

    EXITED = "exited"
    ERROR = "error"  # the exception that ended the program
    SIGNAL = "signal"  # the signal's name
    SIGKILL = "sigkill"
    EXITED_AT_ONCE = "exited_at_once"  # the exit status, "" where it is 0 or the kernel does not tell it
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
    """How a conversation with a probe ended; `gputui.explain.disconnects` makes the sentence."""

    kind: DisconnectKind
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment that the program or the viewer named."""

    time: float
    label: str


class ActionName(str, Enum):
    """What a viewer may have the probe do to the program."""

    COLLECT = "collect"
    EMPTY_CACHE = "empty_cache"
    HISTORY_ON = "history_on"
    HISTORY_OFF = "history_off"


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
    """What came of an action; `reason` is a sentence where it was not done, or not to its end, "" otherwise.

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
