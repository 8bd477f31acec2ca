"""The threads at one moment: which of them every look reads, and what all of them are doing.

A program may have thousands of threads, of which most wait for work. So each look reads the variables of some threads
only, as that takes long. What has to be known of all threads is asked of one among those that are at the same
instructions of the same functions.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from itertools import accumulate, chain, repeat
from operator import attrgetter, getitem
from types import FrameType
from typing import Any, NamedTuple

from gputui.probe.guards.originals import get_ident
from gputui.probe.guards.thread_numbers import main_ident
from gputui.probe.objects import plain
from gputui.probe.objects.stacks import (
    RunningFrame,
    are_in_backward,
    is_freeing,
    of_the_program,
    stacks_by_thread,
    with_variables,
)
from gputui.probe.pace.meter import Meter

AT_ONCE = 16
"""How many threads every look reads, those started first; the calling thread and the main one are read as well."""
FRAME_STEPS = 3
"""How many steps of a look the variables of a frame and their names take."""
_OF_THREAD = getattr(resource, "RUSAGE_THREAD", 1)
_code_of, _last_instruction_of = attrgetter("f_code"), attrgetter("f_lasti")


class Threads(NamedTuple):
    """The threads of the program, by the interpreter's numbers for them."""

    here: list[FrameType]
    """The stack of the calling thread. This and the stacks below begin with the innermost frame."""
    running: list[RunningFrame]
    """The program's frames in the threads that every look reads."""
    others: dict[int, list[FrameType]]
    """The stacks of the threads that are read in turns."""
    different: list[list[FrameType]]
    """The stacks of threads other than the calling one: of several at the same instructions, only one."""
    waits: int
    """How often the calling thread had waited: while that is unchanged, no other thread has run, and all this holds."""

    def modules(self) -> list[dict[str, Any]]:
        """The globals of the functions that run, each once."""
        frames = chain(self.here, chain.from_iterable(self.different))
        return list(plain.by_id(map(attrgetter("f_globals"), frames)).values())

    def are_freeing(self, meter: Meter) -> bool | None:
        """Whether a thread runs code for an object that is being freed; None if there is no time to tell."""
        if is_freeing(self.running):
            return True
        if not self.others:
            return False
        frames = list(chain.from_iterable(map(of_the_program, self.different)))
        return is_freeing(with_variables(frames)) if meter.spend(FRAME_STEPS * len(frames)) else None

    def are_in_backward(self) -> bool:
        """Whether a thread other than the calling one waits for PyTorch's backward pass."""
        return are_in_backward(self.different)


def threads_now() -> Threads:
    """The threads of the program at this moment."""
    waits, me = waits_of_this_thread(), get_ident()
    stacks = stacks_by_thread()
    elsewhere = [frames for ident, frames in stacks.items() if ident != me]
    different = list(dict(zip(_instructions(elsewhere), elsewhere)).values())
    first = {me, main_ident(), *list(stacks)[-AT_ONCE:]}  # the newest is the first that is found
    running = with_variables(
        [frame for ident, frames in stacks.items() if ident in first for frame in of_the_program(frames)]
    )
    others = {ident: frames for ident, frames in stacks.items() if ident not in first}
    return Threads(stacks[me], running, others, different, waits)


def waits_of_this_thread() -> int:
    """How often the calling thread has given up the processor, as it does to wait for the interpreter."""
    return resource.getrusage(_OF_THREAD).ru_nvcsw


def _instructions(stacks: list[list[FrameType]]) -> Iterator[tuple[tuple[int, int], ...]]:
    """At which instruction each function on each stack is: its code's id, unique while it runs, and the offset."""
    frames = list(chain.from_iterable(stacks))
    places = list(zip(map(id, map(_code_of, frames)), map(_last_instruction_of, frames)))
    ends = list(accumulate(map(len, stacks)))
    return map(tuple, map(getitem, repeat(places), map(slice, [0, *ends], ends)))
