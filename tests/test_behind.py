"""`gputui attach PID --behind`: asks real processes that answer as NCCL does, and prints it for people and scripts."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event

import pytest

from gputui.cli import main
from gputui.commands.attach.behind import ask_behind
from gputui.errors import GputuiError
from gputui.model.collectives import Inquiry, ProcessPlace, Question, RankLine
from gputui.sources.nccl.source import RasSource
from tests.sources.nccl.job import Job, answer, communicator, job, rank


def asked(ranks: Job, *, is_assumed: bool = True, as_json: bool = False) -> int:
    source = RasSource(clock=lambda: float("inf"))
    look = {"width": 100, "in_color": False, "source": source, "pause_s": 0.001}
    return ask_behind(ranks.pids, is_assumed=is_assumed, as_json=as_json, **look)


@pytest.fixture
def stuck(tmp_path: Path):
    """A job of two ranks here and one elsewhere, whose second rank is behind."""
    with job(tmp_path) as ranks:
        first, second = ranks.pids
        far = rank(2, 4711, "10.255.0.7", AllReduce=100)
        ranks.answers(answer(communicator(rank(0, first, AllReduce=100), rank(1, second, AllReduce=99), far)))
        yield ranks


def test_the_page_begins_with_the_answer(stuck: Job, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(stuck) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    behind = stuck.pids[1]
    assert first == f"Rank 1 (PID {behind} on 127.0.0.1) is behind, and nothing moves: 2 ranks wait for it."
    assert f"! Rank 1: behind, PID {behind} here, GPU 1" in lines
    assert "    It has launched 99 AllReduce, 2 others up to 100." in lines
    assert any(line.startswith("    Its main thread ") for line in lines)
    assert "  3 ranks: ranks behind, 99 to 100 launched (0xae94423cfbb2ef4a)" in lines
    assert lines[-1].endswith("never on real NCCL.")


def test_the_document_has_the_ranks_and_communicators(stuck: Job, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(stuck, as_json=True) == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["schema"], body["nccl"], body["answers"], body["problems"]) == ("gputui.behind/1", "2.29.3", 2, [])
    (found,) = body["ranks"]
    assert found.pop("main_thread").startswith("Its main thread ")
    assert found == {
        "rank": 1,
        "trouble": "behind",
        "host": "127.0.0.1",
        "host_pid": stuck.pids[1],
        "pid_here": stuck.pids[1],
        "nvml_index": 1,
        "waiting_ranks": 2,
        "sentence": "It has launched 99 AllReduce, 2 others up to 100.",
    }
    assert body["communicators"] == [
        {
            "hash": "0xae94423cfbb2ef4a",
            "size": 3,
            "missing": 0,
            "state": "behind",
            "fewest_launched": 99,
            "most_launched": 100,
        }
    ]


def test_an_answer_that_does_not_come_is_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with job(tmp_path) as ranks:
        ranks.answers(b"not what NCCL says")
        assert asked(ranks, as_json=True) == 1
    body = json.loads(capsys.readouterr().out)
    assert (body["answers"], body["headline"]) == (0, None)
    assert "is not as NCCL documents it" in body["problems"][0]


def test_without_a_terminal_and_yes_nothing_is_asked(stuck: Job) -> None:
    with pytest.raises(GputuiError, match="NCCL was not asked"):
        asked(stuck, is_assumed=False)
    assert stuck.questions == 0


@pytest.mark.parametrize(("typed", "questions"), [("yes\n", 2), ("\n", 0)])
def test_on_a_terminal_it_asks_first(
    stuck: Job, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str, questions: int
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal(typed))
    try:
        asked(stuck, is_assumed=False)
    except GputuiError:
        assert not questions
    assert "never tried on real NCCL" in capsys.readouterr().err
    assert stuck.questions == questions


class Elsewhere(RasSource):
    """NCCL may not be asked here, and of two ranks one is at another line."""

    def question(self, pids: Iterable[int]) -> Question:
        raise GputuiError("NCCL 2.28.9 is not asked.")

    def ranks_here(self, pid: int) -> int:
        return 0 if pid == 1 else 3

    def compare(self, pid: int, problem: str, tell: Callable[[Inquiry], object], is_left: Event) -> None:
        lines = tuple(RankLine(100 + rank, rank, f"train.py:{20 - rank // 2} in main") for rank in range(3))
        here = {ProcessPlace("", 102): 102}
        tell(Inquiry(pid, problem=problem, lines=lines, here=here, is_over=True))


def test_where_nccl_is_not_asked_the_lines_of_the_ranks_tell(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask_behind([100], is_assumed=True, as_json=False, width=100, in_color=False, source=Elsewhere()) == 1
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "Rank 2 (PID 102) is at train.py:19 in main, the other 2 ranks here at train.py:20 in main."
    assert lines[0] == "! NCCL 2.28.9 is not asked."
    assert "! Rank 2: elsewhere, PID 102 here" in lines
    assert not any("never on real NCCL" in line for line in lines)


def test_of_a_process_that_is_no_rank_it_is_said_why_nccl_is_not_asked() -> None:
    with pytest.raises(GputuiError, match=r"NCCL 2.28.9 is not asked"):
        ask_behind([1], is_assumed=True, as_json=False, width=100, in_color=False, source=Elsewhere())


@pytest.mark.parametrize("option", ["--once", "--readonly", "--record=x"])
def test_other_options_do_not_go_with_it(capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert main(["attach", "1", "--behind", option]) == 2
    assert "--behind asks on this machine only" in capsys.readouterr().err
