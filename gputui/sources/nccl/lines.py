"""Reads from outside in which lines a job's ranks on this machine are, where NCCL may not be asked."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Event

from gputui.model.collectives import Inquiry, ProcessPlace, RankLine
from gputui.sources.probe.main_thread_place import line_of_main_thread, place_of_main_thread
from gputui.sources.processes.ranks import JobPlace, place_in_job
from gputui.sources.procfs import ProcFs

PAUSE_S = 2.0
"""Between two readings: a rank that waits for others is at the same line in both."""
RANKS_AT_MOST = 64


def compare_lines(pid: int, problem: str, tell: Callable[[Inquiry], object], is_left: Event, proc: ProcFs) -> None:
    """Read twice in which lines the ranks of a process's job are; `problem` is why NCCL was not asked.
    `tell` gets the lines after each reading; nothing more is read once `is_left` is set."""
    ranks = ranks_beside(pid, proc)
    inquiry = Inquiry(pid, problem=problem)
    first = {each: line_of_main_thread(each) for each in ranks}
    tell(inquiry._replace(lines=tuple(RankLine(each, rank, first[each]) for each, rank in ranks.items())))
    if is_left.wait(PAUSE_S):
        return
    second = {each: line_of_main_thread(each) for each in ranks}
    lines = tuple(RankLine(each, rank, second[each], second[each] != first[each]) for each, rank in ranks.items())
    here = {ProcessPlace("", each): each for each in ranks}
    doing = {each: place_of_main_thread(each, 0) for each in ranks}
    tell(inquiry._replace(lines=lines, here=here, doing=doing, interval_s=PAUSE_S, is_over=True))


def ranks_beside(pid: int, proc: ProcFs) -> dict[int, int]:
    """The ranks by PID, in order, of the processes on this machine in the job of a rank or of a launcher."""
    parents, places = {}, {}
    for each in proc.pids():
        place, stat = _place(each, proc), proc.stat(each)
        if place is not None and stat is not None:
            parents[each], places[each] = stat.parent_pid, place
    own = places.get(pid)
    ranks = {
        each: place.rank
        for each, place in places.items()
        if places.get(parents[each]) != place  # else a rank has started it, and it has inherited the variables
        and (parents[each] == pid if own is None else _is_same_job(place, own, parents[each] == parents[pid]))
    }
    return dict(sorted(ranks.items(), key=lambda item: item[1])[:RANKS_AT_MOST])


def _is_same_job(place: JobPlace, own: JobPlace, is_sibling: bool) -> bool:  # noqa: FBT001 - one call
    is_alike = (place.world_size, place.rendezvous) == (own.world_size, own.rendezvous)
    return is_alike and (bool(own.rendezvous) or is_sibling)


def _place(pid: int, proc: ProcFs) -> JobPlace | None:
    with suppress(OSError):
        return place_in_job(proc.variables(pid))
    return None
