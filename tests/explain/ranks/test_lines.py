"""Which rank is elsewhere, by the lines at which ranks are."""

from __future__ import annotations

import pytest

from gputui.explain.documents.behind import behind_document
from gputui.explain.ranks.collectives import Trouble, findings_of
from gputui.explain.ranks.lines import UNREADABLE, elsewhere
from gputui.model.collectives import Inquiry, ProcessPlace, RankLine

WAITS, LOADS = "train.py:21 in main", "train.py:6 in load_batch"


def ranks(*lines: str, moving: tuple[int, ...] = ()) -> tuple[RankLine, ...]:
    return tuple(RankLine(100 + rank, rank, line, has_moved=rank in moving) for rank, line in enumerate(lines))


@pytest.mark.parametrize(
    ("lines", "words", "named"),
    [
        pytest.param(
            ranks(WAITS, WAITS, LOADS, WAITS),
            f"Rank 2 (PID 102) is at {LOADS}, the other 3 ranks here at {WAITS}.",
            [2],
            id="one is elsewhere",
        ),
        pytest.param(
            ranks(WAITS, WAITS, "train.py:7 in augment", WAITS, moving=(2,)),
            f"Rank 2 (PID 102) is at train.py:7 in augment, the other 3 ranks here at {WAITS}.",
            [2],
            id="one is elsewhere and moves",
        ),
        pytest.param(
            ranks(LOADS, WAITS, WAITS, LOADS, WAITS),
            f"2 of 5 ranks here are not where the others are, at {WAITS}.",
            [0, 3],
            id="two are elsewhere",
        ),
        pytest.param(ranks(WAITS, LOADS), "Its 2 ranks here are at different lines.", [0, 1], id="two at two lines"),
        pytest.param(
            ranks(WAITS, WAITS),
            f"All 2 ranks here are at {WAITS}: they wait for ranks elsewhere, or for their GPUs.",
            [],
            id="all at one line",
        ),
        pytest.param(
            ranks(WAITS, WAITS, moving=(0, 1)),
            "Its 2 ranks here move: a moment before, they were at other lines.",
            [],
            id="all move",
        ),
        pytest.param(ranks("", ""), UNREADABLE, [], id="no line can be read"),
    ],
)
def test_the_ranks_that_are_not_where_most_stand_are_named(lines, words, named):
    sentence, found = elsewhere(lines)
    assert (sentence, [each.rank for each in found]) == (words, named)


def test_the_findings_have_what_such_a_rank_does_and_no_device():
    doing = {102: f"Its main thread waits for time to pass, at {LOADS}."}
    inquiry = Inquiry(100, problem="NCCL is not asked.", lines=ranks(WAITS, WAITS, LOADS), doing=doing, is_over=True)
    inquiry = inquiry._replace(here={ProcessPlace("", 102): 102})
    (suspect,) = findings_of(inquiry).suspects
    assert (suspect.trouble, suspect.title(102)) == (Trouble.ELSEWHERE, "Rank 2: elsewhere, PID 102 here")
    document = behind_document(inquiry, findings_of(inquiry))
    (rank,) = document["ranks"]
    assert (rank["trouble"], rank["pid_here"], rank["nvml_index"]) == ("elsewhere", 102, None)
    assert rank["main_thread"] == doing[102]


def test_nothing_is_said_before_both_readings():
    assert not findings_of(Inquiry(100, problem="NCCL is not asked.", lines=ranks(WAITS, LOADS))).headline
