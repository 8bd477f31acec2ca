"""Which rank is behind, on screen: the question, what NCCL answers, and the way to the process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event, Semaphore

import pytest

from gputui.errors import GputuiError
from gputui.model.collectives import Inquiry, ProcessPlace, Question, RankLine
from gputui.model.machine.process import Rank
from gputui.model.machine.snapshot import Snapshot
from gputui.sources.nccl.decode import decoded
from gputui.sources.nccl.source import WARNING, RasSource
from tests.hanging import HANGS_S
from tests.sources.nccl.job import Job, answer, communicator, job, missing, rank
from tests.ui import scenes
from tests.ui.monitor import Monitor, Size, open_monitor

SIZES = [(80, 24), (120, 40), (200, 50)]

COUNTS = answer(
    communicator(
        rank(0, 1000, AllReduce=81_205),
        rank(1, 1001, AllReduce=81_204),
        *(rank(number, 500 + number, "10.0.0.12", AllReduce=81_205) for number in range(2, 7)),
        gone=(missing(7, 507, "10.0.0.13"),),
        name="0xae94423cfbb2ef4a",
    ),
    communicator(rank(0, 1000, AllGather=7), rank(1, 1001, AllGather=6), name="0x27a079b828ff1a75"),
    communicator(*(rank(number, 500 + number, "10.0.0.12") for number in range(2, 7)), name="0xcf264af53edbe986"),
    timeouts=1,
)
FIRST = Inquiry(1000, decoded(COUNTS), here={ProcessPlace("127.0.0.1", pid): pid for pid in (1000, 1001)})
DOING = "Its main thread waits for a lock, at loader.py:31 in next_batch."
SECOND = FIRST._replace(second=FIRST.first, interval_s=5.0, doing={1001: DOING}, is_over=True)

STANDING = tuple(RankLine(1000 + each, each, f"train.py:{21 - 2 * (each // 2)} in main") for each in range(3))
LINES = (
    Inquiry(1000, lines=STANDING),
    Inquiry(1000, lines=STANDING, here={ProcessPlace("", 1002): 1002}, doing={1002: DOING}, is_over=True),
)


class Answers:
    """Gives these answers, one for each time that `go_on` is released."""

    def __init__(self, *inquiries: Inquiry) -> None:
        self.inquiries = inquiries
        self.go_on = Semaphore(0)
        self.left: list[Event] = []

    def question(self, pids: Iterable[int]) -> Question:
        """Of the first process."""
        pid = next(iter(pids))
        return Question(pid, (f"NCCL 2.29.3 in process {pid} is asked twice.",), WARNING)

    def inquire(self, pid: int, tell: Callable[[Inquiry], object], is_left: Event) -> None:
        """Tell the answers one by one."""
        self.left.append(is_left)
        for inquiry in self.inquiries:
            self.go_on.acquire(timeout=HANGS_S)
            tell(inquiry._replace(pid=pid))

    def ranks_here(self, pid: int) -> int:
        """Two, unless the process is alone."""
        return 1 if pid == 1007 else 2

    def compare(self, pid: int, problem: str, tell: Callable[[Inquiry], object], is_left: Event) -> None:
        """Two readings of the lines of these ranks."""
        self.left.append(is_left)
        for inquiry in LINES:
            self.go_on.acquire(timeout=HANGS_S)
            tell(inquiry._replace(pid=pid, problem=problem))


def ranks(*pids: int) -> Snapshot:
    processes = tuple(
        scenes.process(pid, place, rank=Rank(place, 8, place, None), command="python train.py")
        for place, pid in enumerate(pids)
    )
    return scenes.snapshot(scenes.devices(len(pids)), processes)


@asynccontextmanager
async def asked(answers: Answers, size: Size = (80, 24)) -> AsyncIterator[Monitor]:
    """The monitor after the question was answered with yes."""
    async with open_monitor(ranks(1000, 1001), size=size) as monitor:
        monitor.app.attached.inquirer = answers
        await monitor.press("c")
        await monitor.until(lambda: monitor.screen == "Confirm")
        await monitor.press("right", "enter")
        yield monitor
        answers.go_on.release()


async def told(monitor: Monitor, answers: Answers, words: str) -> None:
    answers.go_on.release()
    await monitor.until(lambda: words in monitor.text)
    await monitor.settle()


async def test_the_question_says_what_it_does_and_cancel_has_the_focus(screen_text):
    async with open_monitor(ranks(1000, 1001), size=(80, 24)) as monitor:
        monitor.app.attached.inquirer = answers = Answers()
        await monitor.press("c")
        await monitor.until(lambda: monitor.screen == "Confirm")
        await monitor.settle()
        assert monitor.text == screen_text
        await monitor.press("enter")
        assert monitor.screen == "Overview"
        assert answers.left == []


async def test_the_screen(screen_text):
    answers = Answers(FIRST, SECOND)
    async with asked(answers) as monitor:
        assert monitor.text == screen_text(name="waiting")
        await told(monitor, answers, "Waiting for the second answer")
        assert monitor.text == screen_text(name="first")
        await told(monitor, answers, "next_batch")
        for width, height in SIZES:
            await monitor.resize(width, height)
            assert monitor.text == screen_text(name=f"{width}x{height}")


async def test_enter_on_a_rank_that_runs_here_shows_its_process_and_says_where_others_run():
    answers = Answers(SECOND)
    async with asked(answers, (120, 40)) as monitor:
        await told(monitor, answers, "next_batch")
        await monitor.press("enter")
        assert monitor.notices == ["Rank 7 runs on another machine, which this monitor does not show."]
        await monitor.press("down", "enter")
        assert monitor.screen == "ProcessScreen"
        assert "1001" in monitor.text


async def test_leaving_the_screen_ends_the_asking():
    answers = Answers(FIRST, SECOND)
    async with asked(answers) as monitor:
        await monitor.press("escape")
        assert monitor.screen == "Overview"
        assert answers.left[0].is_set()
        answers.go_on.release()  # an answer that comes late is nobody's
        await monitor.settle()


async def test_c_asks_again_once_all_was_answered():
    answers = Answers(SECOND)
    async with asked(answers) as monitor:
        await monitor.press("c")
        assert monitor.screen == "CollectivesScreen"
        await told(monitor, answers, "next_batch")
        await monitor.press("c")
        await monitor.until(lambda: monitor.screen == "Confirm")


@pytest.mark.parametrize("scene", [scenes.node(is_demo=True), None], ids=["demonstration", "nobody to ask"])
async def test_where_it_is_not_offered_the_key_says_so(scene: Snapshot | None):
    async with open_monitor(scene, size=(80, 24)) as monitor:
        monitor.app.attached.inquirer = Answers() if scene else None
        await monitor.press("c")
        assert monitor.notices[0].startswith("NCCL is asked only on this machine")


class Refusing(Answers):
    """NCCL may not be asked."""

    def question(self, _pids: Iterable[int]) -> Question:
        cause = "NCCL 2.27.3 is not asked."
        raise GputuiError(cause, "Upgrade it.")


async def test_a_refusal_is_a_notice_where_no_other_rank_is_here():
    async with open_monitor(ranks(1007), size=(80, 24)) as monitor:
        monitor.app.attached.inquirer = Refusing()
        await monitor.press("c")
        await monitor.until(lambda: monitor.notices)
        assert monitor.notices == ["NCCL 2.27.3 is not asked. Upgrade it."]


async def test_where_nccl_is_not_asked_the_lines_of_the_ranks_are_compared(screen_text):
    async with open_monitor(ranks(1000, 1001, 1002), size=(80, 24)) as monitor:
        monitor.app.attached.inquirer = answers = Refusing()
        await monitor.press("c")
        await monitor.until(lambda: monitor.screen == "CollectivesScreen")
        await told(monitor, answers, "Waiting for a second look")
        await told(monitor, answers, "next_batch")
        assert monitor.text == screen_text
        await monitor.press("enter")
        assert monitor.screen == "ProcessScreen"
        assert "1002" in monitor.text


async def test_real_processes_that_answer_as_nccl_does(tmp_path: Path):
    with job(tmp_path) as here:
        async with open_monitor(ranks(*here.pids), size=(120, 40)) as monitor:
            monitor.app.attached.inquirer = RasSource(clock=lambda: float("inf"))
            await look_at(monitor, here)


async def look_at(monitor: Monitor, here: Job) -> None:
    first, second = here.pids
    here.answers(answer(communicator(rank(0, first, AllReduce=5), rank(1, second, AllReduce=4))))
    await monitor.press("c")
    await monitor.until(lambda: monitor.screen == "Confirm")
    assert here.questions == 0
    await monitor.press("right", "enter")
    await monitor.until(lambda: "is behind, and nothing moves" in monitor.text)
    assert f"Rank 1: behind, PID {second} here" in monitor.text
    assert "It has launched 4 AllReduce, the other rank up to 5." in monitor.text
    assert here.questions == 2
    await monitor.settle()
    assert "Enter shows the process." in monitor.text
    await monitor.press("enter")
    assert monitor.screen == "ProcessScreen"
