"""Asks NCCL about a job: whose port it is, which version answers, then two questions with a pause between them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Event
from typing import NamedTuple

from gputui.errors import GputuiError
from gputui.explain.ranks.collectives import findings_of
from gputui.model.collectives import Inquiry, JobAnswer, ProcessPlace, Question
from gputui.sources.listening import Listening, holders_of, inodes_of, listening_on, shares_network
from gputui.sources.nccl.client import ask
from gputui.sources.nccl.lines import compare_lines, ranks_beside
from gputui.sources.nccl.versions import Version, refusal_of, version_of, words_of
from gputui.sources.probe.main_thread_place import place_of_main_thread
from gputui.sources.procfs import ProcFs

PORT = 28028
"""NCCL's default; NCCL_RAS_ADDR changes it."""
_VARIABLE = "NCCL_RAS_ADDR"
PAUSE_S = 5.0
"""Between the two questions: a training program that launches nothing in that time stands still."""
FIRST_S = 120.0
"""A process is not asked so soon after its start: it makes communicators, when questions were most dangerous."""
PLACES_AT_MOST = 4
"""For how many processes on this machine it is read what their main threads do."""

QUESTION = (
    f"NCCL {{}} in process {{}} is asked twice, {PAUSE_S:.0f} s apart, for all ranks of its job.",
    "NCCL's own thread answers, and asks the other processes on all nodes; the program goes on meanwhile.",
)
WARNING = (
    "Older versions had faults that ended jobs at such a question. None is known of this one, but gputui was never "
    "tried on real NCCL: do not ask a job that you cannot afford to lose."
)


class Port(NamedTuple):
    """A process to ask: its socket, its version of NCCL, and the processes on this machine that may answer there."""

    pid: int
    socket: Listening
    version: Version
    holders: tuple[int, ...]


class RasSource:
    """Reads /proc and asks NCCL; use it in a thread of its own, because both may take long."""

    def __init__(
        self,
        proc: ProcFs | None = None,
        clock: Callable[[], float] = time.time,
        doing: Callable[[int], str] = lambda pid: place_of_main_thread(pid, 0),
    ) -> None:
        self._proc, self._clock, self._doing = proc or ProcFs(), clock, doing

    def question(self, pids: Iterable[int]) -> Question:
        """Which of these processes to ask, and what to say before; raises GputuiError where none may be asked."""
        port = self._first_port(tuple(pids))
        sentences = tuple(sentence.format(words_of(port.version), port.pid) for sentence in QUESTION)
        return Question(port.pid, sentences, WARNING)

    def inquire(self, pid: int, tell: Callable[[Inquiry], object], is_left: Event, pause_s: float = PAUSE_S) -> None:
        """Ask twice, and give `tell` what is known after each answer; ends early once `is_left` is set."""
        inquiry = Inquiry(pid)
        try:
            inquiry = self._answered(inquiry, self._port(pid))
            first = inquiry.first
            if first is None or any(each.is_initialising for each in first.communicators):
                problem = (
                    inquiry.problem or "A communicator is being made just now, so NCCL was not asked a second time."
                )
                tell(inquiry._replace(problem=problem, is_over=True))
                return
            tell(inquiry)
            if is_left.wait(pause_s):
                return
            inquiry = self._answered(inquiry._replace(interval_s=pause_s), self._port(pid))
            here = [inquiry.here[each.place] for each in findings_of(inquiry).suspects if each.place in inquiry.here]
            doing = {each: self._doing(each) for each in here[:PLACES_AT_MOST]}
            tell(inquiry._replace(doing=doing, is_over=True))
        except GputuiError as error:
            tell(inquiry._replace(problem=str(error), is_over=True))

    def ranks_here(self, pid: int) -> int:
        """How many ranks of the job of a process are on this machine, 0 where it is no rank."""
        return len(ranks_beside(pid, self._proc))

    def compare(self, pid: int, problem: str, tell: Callable[[Inquiry], object], is_left: Event) -> None:
        """In place of `inquire`, if NCCL may not be asked because of `problem`: the lines of the ranks here."""
        compare_lines(pid, problem, tell, is_left, self._proc)

    def _answered(self, inquiry: Inquiry, port: Port) -> Inquiry:
        answer = ask(port.socket)
        here = self._here(answer, port.holders)
        if answer.communicators and here and port.pid not in here.values():
            problem = (
                f"Another job of yours has answered, which shares the port with that of process {port.pid}: the kernel "
                "chooses who answers. Ask again; NCCL_RAS_ADDR gives a job a port of its own."
            )
            return inquiry._replace(problem=problem)
        if inquiry.first is None:
            return inquiry._replace(here=here, first=answer)
        return inquiry._replace(here=here, second=answer)

    def _first_port(self, pids: tuple[int, ...]) -> Port:
        """The port of the first process that may be asked; where none may, raises the error of the last one."""
        for pid in pids[:-1]:
            with suppress(GputuiError):
                return self._port(pid)
        return self._port(pids[-1])

    def _port(self, pid: int) -> Port:
        try:
            return self._checked(pid)
        except OSError as error:
            cause = f"Process {pid} cannot be asked: {self._proc.why_unreadable(pid, error).reason}."
            raise GputuiError(cause, "Ask as its user, or as root.") from None

    def _checked(self, pid: int) -> Port:
        """The port, if it may be asked. Raises GputuiError if not, and OSError where /proc cannot be read."""
        proc = self._proc
        if not shares_network(proc, pid):
            cause = f"Process {pid} is in a container with a network of its own, and its NCCL answers only there."
            raise GputuiError(cause, "Run gputui in that container.")
        number = port_of(proc, pid)
        sockets = listening_on(proc, pid, number)
        own = inodes_of(proc, pid)
        mine = next((each for each in sockets if each.inode in own), None)
        if mine is None:
            cause = (
                f"Process {pid} does not listen on port {number} for questions to NCCL: it has made no communicator "
                "of NCCL's, its NCCL is older than 2.24, NCCL_RAS_ENABLE=0 has turned that off, or another user's job "
                "had the port first."
            )
            raise GputuiError(cause)
        sharing = [each for each in sockets if each.shared == mine.shared]
        holders = holders_of(proc, sharing)
        if len(holders) < len({each.inode for each in sharing}):
            cause = f"Another process listens on port {number}, too, which this user may not look into."
            raise GputuiError(cause, "Ask as its user, or as root.")
        versions = {each: self._version(each) for each in {pid, *holders.values()}}
        return Port(pid, mine, versions[pid], tuple(sorted(set(holders.values()))))

    def _version(self, pid: int) -> Version:
        """The NCCL version of a process; raises GputuiError where that process may not be asked."""
        version = version_of(self._proc, pid)
        if version is None:
            cause = f"Which NCCL process {pid} has loaded cannot be told, so it is not asked: some versions end a job."
            raise GputuiError(cause, "Start the program with a libnccl.so.2 of its own, as PyTorch's packages have it.")
        refusal = refusal_of(version)
        if refusal:
            raise GputuiError(f"Process {pid}: {refusal}")
        stat = self._proc.stat(pid)
        if stat is not None and self._clock() - stat.started < FIRST_S:
            cause = (
                f"Process {pid} has started less than {FIRST_S / 60:.0f} minutes ago, and may be making communicators."
            )
            raise GputuiError(cause, "Ask later: a question at that time has ended jobs.")
        return version

    def _here(self, answer: JobAnswer, holders: tuple[int, ...]) -> dict[ProcessPlace, int]:
        """The PIDs of those processes in the answer whose address is one of this machine's interfaces."""
        import psutil  # takes longer to import than all else here, and few ever ask

        addresses = {_bare(each.address) for some in psutil.net_if_addrs().values() for each in some}
        inner = []
        for pid in holders:
            with suppress(OSError):  # it has ended meanwhile
                inner.append((self._proc.status(pid).inner_pid, pid))
        times = Counter(number for number, _ in inner)
        here = {number: pid for number, pid in inner if times[number] == 1}  # two containers may use the same
        places = {rank.place for each in answer.communicators for rank in each.ranks}
        places |= {rank.place for each in answer.communicators for rank in each.missing}
        return {place: here[place.pid] for place in places if _bare(place.host) in addresses and place.pid in here}


def port_of(proc: ProcFs, pid: int) -> int:
    """The port on which a process answers, by its environment. Raises OSError where that cannot be read."""
    _, _, port = proc.variables(pid).get(_VARIABLE, "").rpartition(":")
    return int(port) if port.isascii() and port.isdigit() and len(port) < 6 else PORT


def _bare(address: str) -> str:
    """An address without the interface ("%eth0") behind a link-local address of IPv6."""
    return address.partition("%")[0]
