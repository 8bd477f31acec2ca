"""Searches the variables of threads and asyncio's tasks beyond the first sixteen: the others in turn, then in each look
those that led to something. A server may have a task for each of thousands of connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain, compress, islice
from operator import attrgetter
from types import FrameType

from gputui.probe.objects import plain
from gputui.probe.objects.stacks import (
    Namespace,
    RunningFrame,
    function_at,
    namespaces_of,
    of_the_program,
    place,
    with_variables,
)
from gputui.probe.objects.threads import FRAME_STEPS, Threads
from gputui.probe.pace.meter import Meter
from gputui.probe.pace.turns import Turns
from gputui.probe.search.search import VariableSearch
from gputui.probe.search.variables import NamedValue
from gputui.protocol.owners import Owner

THREADS_AT_ONCE = 8
DUE_SHARE = 0.5
"""The share of the time for threads that led to nothing before. They come first: other threads' tensors keep names."""
REST = 8
"""For how many searches a thread that led to nothing is passed over."""
OWNERS_AT_MOST = 64
"""How many owners of tensors are kept for one thread."""


class OtherThreads:
    """Belongs to one process; knows threads by the interpreter's numbers for them, and tasks by their ids."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._owners: dict[int, frozenset[Owner]] = {}
        """The owners of the tensors that a thread led to, for each thread that led to something."""
        self._rests: dict[int, int] = {}
        """For each other thread, the number of the search that reads it again."""
        self._number = 0
        self.unread: frozenset[Owner] = frozenset()
        """The owners of tensors to which threads led in earlier searches that this one had no time for."""

    def search(
        self,
        search: VariableSearch,
        threads: dict[int, Callable[[], list[FrameType]]],
        files: Mapping[str, str],
        meter: Meter,
    ) -> list[Namespace]:
        """Search the variables of these threads as far as there is time; returns those in which something was found.

        `threads` has a function for each that reads its stack, the innermost frame first.
        """
        self._number += 1
        self._owners = {ident: owners for ident, owners in self._owners.items() if ident in threads}
        self._rests = {ident: until for ident, until in self._rests.items() if ident in threads}
        leading = [thread for thread in threads.items() if thread[0] in self._owners]
        due = [thread for thread in threads.items() if thread[0] not in self._owners and self._is_due(thread[0])]
        seen: set[int] = set()
        unread = dict(self._owners)
        found: list[Namespace] = []
        of_due = meter.part(DUE_SHARE) if leading else meter
        for what, some, part in (("threads", due, of_due), ("leading threads", leading, meter)):
            for together in self._turns.in_turn(what, some, part, THREADS_AT_ONCE):
                stacks = {ident: stack() for ident, stack in together}
                if part.spend(FRAME_STEPS * sum(map(len, stacks.values()))):
                    found += self._read(search, stacks, files, seen, part)
                    for ident in () if part.is_over else stacks:
                        unread.pop(ident, None)
        self.unread = frozenset(chain.from_iterable(unread.values()))
        return found

    def known(self, threads: Threads) -> list[RunningFrame]:
        """The program's frames in the threads that every look reads, and in the others that led to something."""
        leading = [frames for ident, frames in threads.others.items() if ident in self._owners]
        return [*threads.running, *with_variables(list(chain.from_iterable(map(of_the_program, leading))))]

    def _is_due(self, ident: int) -> bool:
        return self._rests.get(ident, 0) <= self._number

    def _read(
        self,
        search: VariableSearch,
        threads: dict[int, list[FrameType]],
        files: Mapping[str, str],
        seen: set[int],
        meter: Meter,
    ) -> list[Namespace]:
        stacks = {ident: of_the_program(frames) for ident, frames in threads.items()}
        running = iter(with_variables(list(chain.from_iterable(stacks.values()))))
        found: list[Namespace] = []
        for ident, frames in stacks.items():
            spaces = namespaces_of(files, list(islice(running, len(frames))), seen)
            finds, tensors = search.finds, len(search.tensors)
            search.search(spaces, meter)
            if search.finds > finds:
                found += spaces
                owners = (named.owner for named in search.tensors[tensors:][:OWNERS_AT_MOST])
                self._owners[ident] = frozenset(owners)
            elif not meter.is_over:
                self._owners.pop(ident, None)
                self._rests[ident] = self._number + REST + (ident >> 12) % REST  # so that not all end in the same look
        return found


def have(named: NamedValue, frames: list[FrameType], files: Mapping[str, str], meter: Meter) -> bool:
    """Whether one of these frames has the value by its name and at its place; True if there is no time to tell."""
    codes = list(map(attrgetter("f_code"), frames))  # told by their ids: a hash is one of the program's constants, too
    wanted = function_at(named.where)
    idents = {ident for ident, code in plain.by_id(codes).items() if function_at(place(code, "", files)) == wanted}
    of_function = list(compress(frames, map(idents.__contains__, map(id, codes))))
    if not meter.spend(FRAME_STEPS * len(of_function)):
        return True
    return any(running.variables.get(named.name) is named.value for running in with_variables(of_function))
