"""Which rank is behind: communicators of two answers compared, and the chain of who waits for whom."""

from __future__ import annotations

import pytest

from gputui.explain.ranks.collectives import CIRCLE, Findings, State, Trouble, findings_of
from gputui.model.collectives import Inquiry
from gputui.sources.nccl.decode import decoded
from tests.sources.nccl.job import Document, answer, communicator, missing, rank


def told(*documents: Document, then: tuple[Document, ...] | None = None) -> Findings:
    """What is said after the same answer twice, or after `then` as the second one."""
    first, second = answer(*documents), answer(*(then or documents))
    return findings_of(Inquiry(10, decoded(first), decoded(second), interval_s=5.0, is_over=True))


def counted(*totals: int, name: str = "0x1", pids: tuple[int, ...] = ()) -> Document:
    """A communicator whose ranks have launched so many AllReduce."""
    places = pids or tuple(10 + place for place in range(len(totals)))
    ranks = (rank(place, pid, AllReduce=total) for place, (pid, total) in enumerate(zip(places, totals, strict=True)))
    return communicator(*ranks, name=name)


def test_the_rank_with_the_fewest_is_behind_and_others_wait_for_it():
    found = told(counted(81_205, 81_204, 81_205, 81_206))
    (suspect,) = found.suspects
    assert (suspect.rank, suspect.place.pid, suspect.trouble, suspect.waiting) == (1, 11, Trouble.BEHIND, 3)
    assert suspect.sentence == "It has launched 81,204 AllReduce, 3 others up to 81,206."
    assert found.headline == "Rank 1 (PID 11 on 127.0.0.1) is behind, and nothing moves: 3 ranks wait for it."


def test_what_moves_is_not_stuck():
    found = told(counted(100, 99), then=(counted(102, 101),))
    assert found.suspects == ()
    assert found.headline == "It moves: collectives were launched within 5 s, and no communicator waits for a rank."


def test_one_answer_alone_says_nothing_of_who_is_behind():
    found = findings_of(Inquiry(10, decoded(answer(counted(100, 99)))))
    assert found.suspects == ()
    assert [each.state for each in found.communicators] == [State.UNEVEN]


def test_who_waits_for_somebody_else_comes_after_whoever_waits_for_nobody():
    """Ranks 0 and 1 wait for 2 in one communicator; 2 waits for 3 in another one."""
    found = told(counted(5, 5, 4, name="0x1"), counted(9, 8, name="0x2", pids=(12, 13)))
    assert [(each.place.pid, each.trouble) for each in found.suspects] == [
        (13, Trouble.BEHIND),
        (12, Trouble.WAITS_TOO),
    ]
    assert found.headline.startswith("Rank 1 (PID 13 on 127.0.0.1) is behind")


def test_ranks_that_wait_for_each_other_are_a_circle():
    found = told(counted(5, 4, name="0x1"), counted(7, 8, name="0x2"))
    assert {each.trouble for each in found.suspects} == {Trouble.WAITS_TOO}
    assert found.headline == CIRCLE


def test_ranks_that_have_launched_different_collectives_wait_for_each_other():
    found = told(communicator(rank(0, 10, AllReduce=6, AllGather=3), rank(1, 11, AllReduce=5, AllGather=4)))
    assert [each.state for each in found.communicators] == [State.MIXED]
    assert "have launched different collectives" in found.headline


def test_a_rank_that_does_not_answer_comes_before_all_that_are_behind():
    gone = (missing(2, 12, "10.0.0.7"), missing(3, 13, "10.0.0.7", is_dead=True))
    found = told(communicator(rank(0, 10), rank(1, 11), gone=gone), counted(5, 4, name="0x2"))
    assert [each.trouble for each in found.suspects] == [Trouble.DEAD, Trouble.UNRESPONSIVE, Trouble.BEHIND]
    assert found.headline == "Rank 3 (PID 13 on 10.0.0.7) is dead to NCCL."


def test_several_ranks_that_do_not_answer_are_counted():
    gone = tuple(missing(number, 10 + number, "10.0.0.7") for number in (1, 2, 3))
    headline = told(communicator(rank(0, 10), gone=gone)).headline
    assert headline == "Rank 1 (PID 11 on 10.0.0.7) does not answer NCCL. Nor do 2 more."


def test_an_error_of_nccl_is_said_in_words():
    found = told(communicator(rank(0, 10, error=6), rank(1, 11)))
    assert found.suspects[0].sentence == (
        "Its communicator has failed: the other end of a connection failed or is gone."
    )


def test_ranks_whose_processes_nccl_cannot_name_are_told_apart():
    gone = tuple(missing(number, -1, "unknown") for number in (1, 2))
    found = told(communicator(rank(0, 10), gone=gone))
    assert [each.rank for each in found.suspects] == [1, 2]
    assert found.suspects[0].title(None) == "Rank 1: unresponsive, in a process that NCCL cannot name, GPU 1 there"


@pytest.mark.parametrize(
    ("documents", "state", "words"),
    [
        ((counted(7, 7),), State.STANDING, "all ranks have launched the same"),
        ((communicator(rank(0, 10), rank(1, 11, init_state=7)),), State.INITIALISING, "are being made"),
        ((), None, "knows no communicator yet"),
    ],
    ids=["all the same", "being made", "none"],
)
def test_where_no_rank_stands_out_the_headline_says_what_that_means(
    documents: tuple[Document, ...], state: State | None, words: str
):
    found = told(*documents)
    assert found.suspects == ()
    assert {each.state for each in found.communicators} == ({state} if state else set())
    assert words in found.headline


def test_a_communicator_that_some_have_left_is_being_ended():
    left = {**missing(1, 11), "status": {"unresponsive": False, "considered_dead": False}}
    assert [each.state for each in told(communicator(rank(0, 10), gone=(left,))).communicators] == [State.ENDING]


def test_ten_thousand_ranks_of_which_half_are_behind_take_no_time_that_grows_with_their_square():
    found = told(counted(*[1, 2] * 5000))
    assert len(found.suspects) == 5000
    assert found.headline.endswith("5000 ranks wait for it. 4999 more, too.")
