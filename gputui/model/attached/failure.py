"""An error of GPU memory: the request that failed, and where the program asked for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gputui.model.attached.allocator import CallSite


@dataclass(frozen=True, slots=True)
class Failure:
    """What PyTorch's out-of-memory observer was called with at `time` (epoch seconds), and the state of that thread.

    `requested_bytes` is rounded as the allocator rounds it. `device_free_bytes` and `device_total_bytes` are what the
    driver said; the request and the total are 0, and `thread` is "", where they are not known. `allowed_bytes` is the
    limit that `set_per_process_memory_fraction` sets (None: no limit). `stack` begins with the innermost frame; in a
    backward pass it is that of the thread which called `backward()`, unless the failing thread runs Python itself.
    `backward_node` is the autograd node that ran ("" outside a backward pass). `is_capturing`: the thread was capturing
    a CUDA graph. `number` counts the program's errors, from 1. `message` is the text of the exception, known only if it
    ended the program. `asked_by` is "" if PyTorch's allocator asked for the memory, otherwise the library that did
    ("cuBLAS"): then all fields were read after the exception had ended the program.
    """

    time: float
    device: int
    requested_bytes: int
    device_free_bytes: int
    device_total_bytes: int
    thread: str
    message: str = ""
    stack: tuple[CallSite, ...] = ()
    backward_node: str = ""
    number: int = 1
    allowed_bytes: int | None = None
    is_capturing: bool = False
    device_name: str = ""
    hostname: str = ""
    asked_by: str = ""


class Phase(str, Enum):
    """The part of a training step in which the request was made, as far as its stack shows it."""

    UNKNOWN = ""
    FORWARD = "forward pass"
    BACKWARD = "backward pass"
    OPTIMIZER = "optimizer step"
    EVALUATION = "evaluation"


@dataclass(frozen=True, slots=True)
class Holder:
    """What held memory: a part of it, a family of modules or of tensors, with the bytes of its `count` blocks."""

    name: str
    bytes: int
    count: int = 1
    note: str = ""


@dataclass(frozen=True, slots=True)
class Remedy:
    """What would have made `bytes` more available at the error. `is_at_most`: they are an upper bound.

    `is_enough`: the request would have fitted; None where it is not known how much was missing.
    """

    kind: str
    text: str
    bytes: int
    is_enough: bool | None
    is_at_most: bool = False


@dataclass(frozen=True, slots=True)
class ServerMoment:
    """What an inference server did at the error: "while vLLM loaded its weights"; `remedy` names flags that help."""

    words: str
    remedy: str


@dataclass(frozen=True, slots=True)
class FailureAnalysis:
    """Why a request did not fit, in bytes: `usable_free_bytes` is what the driver would have given this process.

    `short_bytes` is how much more was needed. `cached_bytes` were reserved and not allocated, in pieces of at most
    `largest_piece_bytes`. `outside_bytes` is what the CUDA context, libraries and other processes held. `place` is the
    innermost line outside PyTorch, `callers` are the lines of the program itself that led there. `remedies` that take
    the least effort come first.
    """

    phase: Phase
    place: CallSite | None
    callers: tuple[CallSite, ...]
    usable_free_bytes: int
    short_bytes: int
    reserved_bytes: int
    allocated_bytes: int
    cached_bytes: int
    largest_piece_bytes: int
    outside_bytes: int
    parts: tuple[Holder, ...] = ()
    modules: tuple[Holder, ...] = ()
    tensors: tuple[Holder, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    unnamed_blocks: int = 0
    server: ServerMoment | None = None
