"""The phases of a step, told from the stacks of its allocations."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby

from gputui.explain.step.timeline import Timeline
from gputui.model.attached.allocator import CallSite
from gputui.model.attached.trace import ALLOC


class Phase(str, Enum):
    """A part of a step."""

    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    UNKNOWN = "unknown"
    """No stack says what the program was doing."""


@dataclass(frozen=True, slots=True)
class PhaseRun:
    """A run of events [`first`, `end`) of one phase."""

    phase: Phase
    first: int
    end: int


TORCH = "/torch/"
_BACKWARD_FILES = ("/torch/autograd/", "/torch/_tensor.py", "/torch/utils/checkpoint.py")
_BACKWARD_FUNCTIONS = frozenset({"backward", "_engine_run_backward", "grad", "apply", "recompute_fn", "unpack_hook"})
_OPTIMIZER_PARTS = ("/torch/optim/", "/torch/amp/grad_scaler.py", "/torch/nn/utils/clip_grad.py", "/optimizer")
_OPTIMIZER_FUNCTIONS = frozenset({"step", "zero_grad", "clip_grad_norm_", "unscale_"})
_OF_THE_PROGRAM = (Phase.FORWARD, Phase.OPTIMIZER)
_THREADS = "/threading.py"
_MODULES = "/torch/nn/modules/module.py"


def phases_of(timeline: Timeline) -> tuple[PhaseRun, ...]:
    """The phases in the order of events; they cover the whole trace. One `UNKNOWN` if it has no stacks.

    A free belongs to the phase of the last allocation before it, as events of frees have the stack of their allocation.
    An allocation without a Python stack was made by autograd's own threads, in backward.
    """
    trace = timeline.trace
    if not trace.stack_table or ALLOC not in trace.actions:
        return (PhaseRun(Phase.UNKNOWN, 0, len(timeline)),)
    by_stack = [*_phases_of_stacks(trace.stack_table), Phase.BACKWARD]  # the last is for stack -1
    births = [
        (event, by_stack[stack])
        for event, (action, stack) in enumerate(zip(trace.actions, trace.stacks, strict=True))
        if action == ALLOC
    ]
    runs = [(phase, next(events)[0]) for phase, events in groupby(births, key=lambda birth: birth[1])]
    return tuple(_joined(_resolved(runs), len(timeline)))


def phase_of_stack(stack: Sequence[CallSite]) -> Phase:
    """The phase of an allocation with this stack, innermost frame first; `UNKNOWN` for code outside all phases."""
    is_backward = is_forward = False
    for frame in stack:
        if "closure" in frame.function or "closure" in frame.file:
            break  # `optimizer.step(closure)` runs forward and backward
        if frame.function in _OPTIMIZER_FUNCTIONS and any(part in frame.file for part in _OPTIMIZER_PARTS):
            if is_forward or is_backward:
                break
            return Phase.OPTIMIZER
        if frame.function in _BACKWARD_FUNCTIONS and any(part in frame.file for part in _BACKWARD_FILES):
            is_backward = is_backward or not _is_forward_of_function(frame)
        is_forward = is_forward or frame.file.endswith(_MODULES)
    is_of_autograd = bool(stack) and TORCH in stack[-1].file and "autograd" in stack[-1].file  # autograd's own thread
    if is_backward and (not is_forward or is_of_autograd or _is_called_by_backward(stack)):
        return Phase.BACKWARD
    return Phase.FORWARD if is_forward else Phase.UNKNOWN


def _is_forward_of_function(frame: CallSite) -> bool:
    """Whether a frame is the call of a `torch.autograd.Function`, which runs in the forward pass."""
    return frame.function == "apply" and not frame.file.endswith("/autograd/function.py")


def _is_called_by_backward(stack: Sequence[CallSite]) -> bool:
    return any(
        frame.function in ("backward", "_engine_run_backward") and any(part in frame.file for part in _BACKWARD_FILES)
        for frame in stack
    )


def _phases_of_stacks(table: Sequence[Sequence[CallSite]]) -> list[Phase]:
    """The phase of each stack. A stack that begins neither in the program nor in a Python thread is autograd's hook."""
    phases = [phase_of_stack(stack) for stack in table]
    begins = {_outermost(stack) for stack, phase in zip(table, phases, strict=True) if phase in _OF_THE_PROGRAM}
    return [
        Phase.BACKWARD if phase is Phase.UNKNOWN and begins and _is_hook(stack, begins) else phase
        for stack, phase in zip(table, phases, strict=True)
    ]


def _is_hook(stack: Sequence[CallSite], begins: Container[tuple[str, str]]) -> bool:
    return bool(stack) and not (_outermost(stack) in begins or stack[-1].file.endswith(_THREADS))


def _outermost(stack: Sequence[CallSite]) -> tuple[str, str]:
    return stack[-1].file, stack[-1].function


def _resolved(runs: list[tuple[Phase, int]]) -> Iterator[tuple[Phase, int]]:
    """Give runs of code outside all phases a phase: optimizer between backward and optimizer, where it clips gradients.

    It is optimizer between two optimizer runs, too. Elsewhere such code loads a batch or computes a loss: forward.
    """
    known = [phase for phase, _ in runs]
    for place, (phase, first) in enumerate(runs):
        around = (known[place - 1] if place else Phase.UNKNOWN, known[place + 1] if place + 1 < len(known) else None)
        if phase is not Phase.UNKNOWN:
            yield phase, first
        elif around in ((Phase.BACKWARD, Phase.OPTIMIZER), (Phase.OPTIMIZER, Phase.OPTIMIZER)):
            yield Phase.OPTIMIZER, first
        else:
            yield Phase.FORWARD, first


def _joined(runs: Iterator[tuple[Phase, int]], events: int) -> Iterator[PhaseRun]:
    firsts = [(phase, next(run)[1]) for phase, run in groupby(runs, key=lambda entry: entry[0])]
    ends = [first for _, first in firsts[1:]] + [events]
    first = 0
    for (phase, _), end in zip(firsts, ends, strict=True):
        yield PhaseRun(phase, first, end)
        first = end
