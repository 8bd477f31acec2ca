"""The threads at one moment: which of them every look reads, and whether one of them is freeing an object.

What takes long for each thread (its variables, their names, what they lead to) is done at once for some of them only.
What has to be known of all of them is asked in calls of C: a program may have thousands of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, chain, repeat
from operator import attrgetter, getitem
from types import FrameType
from typing import Any, NamedTuple

from gputui.probe.guards.originals import get_ident
from gputui.probe.guards.thread_numbers import main_ident
from gputui.probe.objects.stacks import RunningFrame, ThreadStack, by_id, is_freeing, thread_stacks, with_variables
from gputui.probe.pace.meter import Meter

AT_ONCE = 16
"""So many threads are read in every look: the calling one, the main one, and those that were started first."""
FRAME_STEPS = 3
"""How many steps of a look the variables of a frame and their names take."""
_code_of, _globals_of, _last_instruction_of = attrgetter("f_code"), attrgetter("f_globals"), attrgetter("f_lasti")


class Threads(NamedTuple):
    """The frames of those that every look reads, and the others, which are read in turns."""

    running: list[RunningFrame]
    others: list[ThreadStack]

    def modules(self) -> list[dict[str, Any]]:
        """The globals of all functions that run, each once."""
        others = chain.from_iterable([frames for _, frames in self.others])
        return list(by_id(map(_globals_of, chain([frame for frame, _ in self.running], others))).values())

    def are_freeing(self, meter: Meter) -> bool | None:
        """Whether one runs code for an object that is being freed; None where there is no time to tell.

        Of others that are at the same instructions of the same functions, one is asked.
        """
        if is_freeing(self.running):
            return True
        stacks = [frames for _, frames in self.others]
        frames = list(chain.from_iterable(dict(zip(_instructions(stacks), stacks)).values()))
        if frames and not meter.spend(FRAME_STEPS * len(frames)):
            return None
        return is_freeing(with_variables(frames))


def threads_now() -> Threads:
    """The threads of the program."""
    found = thread_stacks()
    if len(found) <= AT_ONCE:
        return Threads(with_variables([frame for _, frames in found for frame in frames]), [])
    here = get_ident(), main_ident()
    first = [thread for thread in found if thread.ident in here]
    others = [thread for thread in reversed(found) if thread.ident not in here]  # the newest is the first one found
    while others and len(first) < AT_ONCE:
        first.append(others.pop(0))
    return Threads(with_variables([frame for _, frames in first for frame in frames]), others)


def _instructions(stacks: list[list[FrameType]]) -> Iterator[tuple[tuple[int, int], ...]]:
    """Where each function on each stack is; the ids of code that runs are those of no other."""
    frames = list(chain.from_iterable(stacks))
    places = list(zip(map(id, map(_code_of, frames)), map(_last_instruction_of, frames)))
    ends = list(accumulate(map(len, stacks)))
    return map(tuple, map(getitem, repeat(places), map(slice, [0, *ends], ends)))
