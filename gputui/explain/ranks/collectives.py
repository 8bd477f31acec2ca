"""Which rank is behind: compares two answers of NCCL, communicator by communicator, and then over all of them.

In a communicator where nothing moves, the rank that has launched the fewest collectives keeps the others waiting. It
may itself wait in another communicator, so a rank that keeps others waiting and waits for nobody comes first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from gputui.explain.ranks.lines import elsewhere
from gputui.model.collectives import (
    INITIALISED,
    STILL_INITIALISING,
    Communicator,
    CommunicatorRank,
    Inquiry,
    JobAnswer,
    ProcessPlace,
)

NEVER_TRIED = (
    "NCCL counts what a rank has launched, not what is finished. This was written after NCCL's public description and "
    "tried on an imitation alone, never on real NCCL."
)


class State(Enum):
    """What two answers say about a communicator, the worst first; the value is the state in words."""

    FAILED = "failed"
    MISSING = "ranks missing"
    BEHIND = "ranks behind"
    MIXED = "different collectives"
    UNEVEN = "uneven"
    """Ranks have launched different numbers, by one answer alone: ranks that move are uneven at times."""
    INITIALISING = "being made"
    ENDING = "being ended"
    STANDING = "stands still"
    UNKNOWN = "asked once"
    MOVING = "moves"


WORST_FIRST = tuple(State)


class Compared(NamedTuple):
    """A communicator in the newest answer, its state, and the ranks that are behind in it.

    `fewest` and `most` are the least and the most collectives that one of its ranks has launched.
    """

    communicator: Communicator
    state: State
    fewest: int
    most: int
    behind: tuple[CommunicatorRank, ...] = ()

    @property
    def words(self) -> str:
        """How many ranks it has, its state, and how many collectives they have launched."""
        span = f"{self.fewest:,}" if self.fewest == self.most else f"{self.fewest:,} to {self.most:,}"
        missing = f", {len(self.communicator.missing)} missing" if self.communicator.missing else ""
        name = self.communicator.key.partition(" ")[0]
        return f"{self.communicator.size} ranks{missing}: {self.state.value}, {span} launched ({name})"


class Trouble(Enum):
    """Why a process stands out, the worst first."""

    DEAD = "dead"
    UNRESPONSIVE = "unresponsive"
    FAILED = "failed"
    BEHIND = "behind"
    WAITS_TOO = "behind, and waits for others itself"
    ELSEWHERE = "elsewhere"
    """Its main thread is at another line than those of most ranks; used where NCCL does not answer."""


class Suspect(NamedTuple):
    """A process that stands out, its rank in the communicator that shows it, and a sentence why."""

    place: ProcessPlace
    rank: int
    nvml_device: int
    trouble: Trouble
    sentence: str
    waiting: int = 0
    """How many ranks wait for it."""

    def title(self, pid: int | None) -> str:
        """What is wrong with the process, and where it runs; `pid` is its PID on this machine, None on another."""
        inside = "" if pid == self.place.pid else f" ({self.place.pid} in its container)"
        where = self.place.words if pid is None else f"PID {pid}{inside} here"
        there = " there" if pid is None else ""
        device = f", GPU {self.nvml_device}{there}" if self.nvml_device >= 0 else ""
        return f"Rank {self.rank}: {self.trouble.value}, {where}{device}"

    @property
    def key(self) -> tuple[ProcessPlace, int]:
        """Equal for one process in several communicators. A process that NCCL cannot name counts by its rank."""
        return self.place, self.rank if self.place.pid < 0 else -1


class Findings(NamedTuple):
    """What is said of a job: one sentence, the processes that stand out, and its communicators."""

    headline: str
    suspects: tuple[Suspect, ...]
    communicators: tuple[Compared, ...]


def findings_of(inquiry: Inquiry) -> Findings:
    """What the answers so far say; which ranks are behind only with the second one, which shows what moves."""
    newest = inquiry.second or inquiry.first
    if newest is None:
        return _findings_of_lines(inquiry) if inquiry.is_over and inquiry.lines else Findings("", (), ())
    earlier = {each.key: each for each in inquiry.first.communicators} if inquiry.second and inquiry.first else {}
    compared = sorted(
        (_compared(each, earlier.get(each.key)) for each in newest.communicators),
        key=lambda each: (WORST_FIRST.index(each.state), -each.communicator.size, each.communicator.key),
    )
    suspects = _suspects(compared)
    return Findings(_headline(inquiry, newest, compared, suspects), suspects, tuple(compared))


def _findings_of_lines(inquiry: Inquiry) -> Findings:
    headline, ranks = elsewhere(inquiry.lines)
    suspects = []
    for each in ranks:
        sentence = "" if inquiry.doing.get(each.pid) else f"It is at {each.line}."  # `doing` has the line
        suspects.append(Suspect(ProcessPlace("", each.pid), each.rank, -1, Trouble.ELSEWHERE, sentence))
    return Findings(headline, tuple(suspects), ())


def _compared(now: Communicator, before: Communicator | None) -> Compared:
    totals = {rank.total for rank in now.ranks}
    is_uneven = len({rank.counts for rank in now.ranks}) > 1
    states = {
        State.FAILED: any(_has_failed(rank) for rank in now.ranks),
        State.MISSING: any(rank.is_dead or rank.is_unresponsive for rank in now.missing),
        State.INITIALISING: now.is_initialising,
        # a rank that has already ended the communicator is missing from it
        State.ENDING: bool(now.missing) or any(rank.is_ending for rank in now.ranks),
        State.UNEVEN: before is None and is_uneven,
        State.UNKNOWN: before is None,
        State.MOVING: before is not None and _counts(now) != _counts(before),
        State.BEHIND: len(totals) > 1,
        State.MIXED: is_uneven,
    }
    state = next((state for state, holds in states.items() if holds), State.STANDING)
    fewest, most = min(totals, default=0), max(totals, default=0)
    behind = tuple(rank for rank in now.ranks if rank.total == fewest) if state is State.BEHIND else ()
    return Compared(now, state, fewest, most, behind)


def _has_failed(rank: CommunicatorRank) -> bool:
    return rank.init_state not in {INITIALISED, STILL_INITIALISING} or rank.error not in {0, STILL_INITIALISING}


def _counts(communicator: Communicator) -> dict[int, tuple[tuple[str, int], ...]]:
    return {rank.rank: rank.counts for rank in communicator.ranks}


def _suspects(compared: list[Compared]) -> tuple[Suspect, ...]:
    """The processes that stand out, each once with its worst trouble, the worst process first."""
    found: dict[tuple[ProcessPlace, int], Suspect] = {}
    waiting = _waiting(compared)
    for each in compared:
        for suspect in _suspects_in(each, waiting):
            known = found.get(suspect.key)
            if known is None or _badness(suspect) < _badness(known):
                found[suspect.key] = suspect
    return tuple(sorted(found.values(), key=lambda suspect: (*_badness(suspect), suspect.rank, suspect.place)))


def _badness(suspect: Suspect) -> tuple[int, int]:
    return list(Trouble).index(suspect.trouble), -suspect.waiting


def _waiting(compared: list[Compared]) -> Mapping[ProcessPlace, int]:
    """The processes that wait for ranks that are behind, with the number of communicators in which they wait."""
    return Counter(
        rank.place
        for each in compared
        if each.state is State.BEHIND
        for rank in each.communicator.ranks
        if rank.total > each.fewest and rank.place.pid >= 0
    )


def _suspects_in(each: Compared, waiting: Mapping[ProcessPlace, int]) -> list[Suspect]:
    found = []
    for gone in each.communicator.missing if each.state in {State.MISSING, State.FAILED} else ():
        if gone.is_dead:
            sentence = "NCCL has not reached it for a minute, and considers it dead."
            found.append(Suspect(gone.place, gone.rank, gone.nvml_device, Trouble.DEAD, sentence))
        elif gone.is_unresponsive:
            sentence = "It does not answer NCCL: it has ended, is stopped, or its node cannot be reached."
            found.append(Suspect(gone.place, gone.rank, gone.nvml_device, Trouble.UNRESPONSIVE, sentence))
    for rank in each.communicator.ranks:
        if each.state is State.FAILED and _has_failed(rank):
            sentence = f"Its communicator has failed: {_error_words(rank)}."
            found.append(Suspect(rank.place, rank.rank, rank.nvml_device, Trouble.FAILED, sentence))
    if each.behind:
        ahead = [dict(rank.counts) for rank in each.communicator.ranks if rank.total > each.fewest]
        names = {name for counts in ahead for name in counts}
        reached = {name: max(counts.get(name, 0) for counts in ahead) for name in sorted(names)}
        for rank in each.behind:
            trouble = Trouble.WAITS_TOO if waiting.get(rank.place) else Trouble.BEHIND
            sentence = _difference(rank, reached, len(ahead))
            found.append(Suspect(rank.place, rank.rank, rank.nvml_device, trouble, sentence, len(ahead)))
    return found


def _difference(rank: CommunicatorRank, reached: Mapping[str, int], ahead: int) -> str:
    """ "It has launched 81,204 AllReduce, 7 others up to 81,205.", of the kind of which this rank lacks most."""
    own = dict(rank.counts)
    name = max(reached, key=lambda kind: reached[kind] - own.get(kind, 0))
    others = "the other rank" if ahead == 1 else f"{ahead} others"
    return f"It has launched {own.get(name, 0):,} {name}, {others} up to {reached[name]:,}."


_ERRORS = {
    1: "a CUDA call failed",
    2: "a system call failed",
    3: "an internal error of NCCL's",
    4: "an argument was wrong",
    5: "NCCL was used wrongly",
    6: "the other end of a connection failed or is gone",
}
"""Words for the values of ncclResult_t."""


def _error_words(rank: CommunicatorRank) -> str:
    code = rank.error if rank.error not in {0, STILL_INITIALISING} else rank.init_state
    return _ERRORS.get(code, f"error {code} of NCCL's")


def _headline(inquiry: Inquiry, newest: JobAnswer, compared: list[Compared], suspects: tuple[Suspect, ...]) -> str:
    worst = [each for each in suspects if each.trouble is suspects[0].trouble]
    if worst and worst[0].trouble is not Trouble.WAITS_TOO:
        return _about(worst)
    if worst:
        return CIRCLE
    if not newest.communicators:
        return "NCCL has answered, and knows no communicator yet."
    if inquiry.second is None:
        return "Asked once. The second answer tells which rank is behind: what moves is not stuck."
    states = {each.state for each in compared}
    state = next((state for state in _OF_STATE if state in states), State.STANDING)
    return _OF_STATE[state].format(within=f"within {inquiry.interval_s:.0f} s")


CIRCLE = (
    "Ranks wait for each other in a circle: each is behind in one communicator and waits in another. The program "
    "launches its collectives in different orders on different ranks."
)
_OF_STATE = {
    State.MOVING: "It moves: collectives were launched {within}, and no communicator waits for a rank.",
    State.MIXED: (
        "Nothing moves: ranks of one communicator have launched different collectives, and wait for each other."
    ),
    State.INITIALISING: "Communicators are being made; ask again in a minute.",
    State.ENDING: "Communicators are being ended; ask again in a minute.",
    State.STANDING: (
        "Nothing was launched {within}, and all ranks have launched the same. They wait within the last collective, or "
        "for data sent from rank to rank, which NCCL does not count, or they do something else."
    ),
}
"""The headline where no rank stands out: that of the first of these states that any communicator has."""


_WORDS = {
    Trouble.DEAD: "is dead to NCCL",
    Trouble.UNRESPONSIVE: "does not answer NCCL",
    Trouble.FAILED: "has failed",
    Trouble.BEHIND: "is behind, and nothing moves",
}


def _about(worst: list[Suspect]) -> str:
    first = worst[0]
    subject = f"Rank {first.rank} ({first.place.words}) {_WORDS[first.trouble]}"
    waits = ""
    if first.waiting:
        waits = f": {first.waiting} {'rank waits' if first.waiting == 1 else 'ranks wait'} for it"
    more = (
        f" Nor do {len(worst) - 1} more." if first.trouble is Trouble.UNRESPONSIVE else f" {len(worst) - 1} more, too."
    )
    return f"{subject}{waits}.{more if len(worst) > 1 else ''}"
