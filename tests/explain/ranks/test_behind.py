"""Which rank keeps others waiting, by the collectives that each has launched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.explain.moment.probe_state import ProbeState, after
from gputui.explain.ranks.behind import STANDS_S, ranks_behind, sentences
from gputui.explain.ranks.collectives import CIRCLE
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.target import Disconnect, DisconnectKind, Statistics
from gputui.model.collectives import Launched
from tests.explain.moments import Tensor, moment, row

NOW, LONG_AGO = 1000.0, 1000.0 - 3 * STANDS_S


def rank(number: int, *groups: tuple[str, int], since: float = LONG_AGO, job: str = "node:29500") -> TargetMoment:
    """A rank that has launched so many collectives in its groups."""
    plain = moment(row(Tensor(1, "x")))
    launched = tuple(Launched(job, name, name, 0, 4, number, count, since) for name, count in groups)
    greeting = replace(plain.greeting, pid=100 + number, rank=number, world_size=4)
    return replace(plain, time=NOW, greeting=greeting, groups=launched, main_thread="train.py:23 in load")


def behind(*moments: TargetMoment) -> list[int | None]:
    return [found.moment.greeting.rank for found in ranks_behind(moments)]


def test_the_rank_with_the_fewest_collectives_keeps_the_others_waiting():
    ranks = [rank(number, ("dp", 81_205 - (number == 2))) for number in range(4)]
    (words,) = sentences(ranks)
    assert words == (
        "Rank 2 (PID 102) has kept 3 ranks waiting for 30 s: it has launched 81,204 collectives in dp, the others"
        " 81,205. Its main thread is at train.py:23 in load."
    )


@pytest.mark.parametrize(
    "ranks",
    [
        pytest.param([rank(0, ("dp", 5)), rank(1, ("dp", 5))], id="all have launched the same"),
        pytest.param([rank(0, ("dp", 5)), rank(1, ("dp", 4), since=NOW - 1)], id="it moves"),
        pytest.param([rank(0, ("dp", 5)), rank(1, ("tp", 4))], id="other groups"),
        pytest.param([rank(0, ("dp", 5)), rank(1, ("dp", 4), job="other:1")], id="another job"),
        pytest.param([rank(0, ("dp", 5)), rank(0, ("dp", 4))], id="two jobs that cannot be told apart"),
        pytest.param([rank(0), rank(1)], id="no groups"),
    ],
)
def test_nobody_is_blamed(ranks):
    assert not sentences(ranks)


def test_a_rank_that_waits_itself_is_not_blamed():
    ranks = [rank(0, ("dp", 5), ("tp", 9)), rank(1, ("dp", 4), ("pp", 7)), rank(2, ("pp", 6))]
    assert behind(*ranks) == [2]


def test_ranks_that_wait_for_each_other_are_all_named():
    ranks = [rank(0, ("dp", 5), ("tp", 8)), rank(1, ("dp", 4), ("tp", 9))]
    assert sorted(behind(*ranks)) == [0, 1]
    assert sentences(ranks)[0] == CIRCLE


def test_a_rank_that_has_ended_is_named_and_waits_for_nobody():
    killed = replace(rank(1, ("dp", 4)), ended=Disconnect(DisconnectKind.EXITED))
    (words,) = sentences([rank(0, ("dp", 5)), killed])
    assert words.endswith("the other 5. It has ended.")
    assert not sentences([rank(0, ("dp", 4)), replace(rank(1, ("dp", 5)), ended=killed.ended)])


def test_many_ranks_behind_are_listed():
    ranks = [rank(number, ("dp", 5 - (number > 0))) for number in range(7)]
    assert len(sentences(ranks)) == 5
    assert sentences(ranks)[-1] == "So have Rank 5 (PID 105) and Rank 6 (PID 106)."


def test_how_long_nothing_was_launched_is_counted_from_the_last_change():
    group = Launched("", "0", "default_pg", 0, 2, 0, 7)
    state = ProbeState(rank(0).greeting)
    for time, launched in ((1.0, 6), (2.0, 7), (3.0, 7)):
        counted = Statistics(time, (), None, groups=(group._replace(launched=launched),))
        state = after(state, counted)
    assert [one.since for one in state.groups] == [2.0]
