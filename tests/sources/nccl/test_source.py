"""Asking a job whose ranks are real processes that answer as NCCL does: whose port it is, and which version."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from gputui.errors import GputuiError
from gputui.explain.ranks.collectives import findings_of
from gputui.model.collectives import Inquiry
from gputui.sources.listening import holders_of, listening_on
from gputui.sources.nccl.source import RasSource
from gputui.sources.nccl.versions import refusal_of, version_of
from gputui.sources.procfs import ProcFs
from tests.plugins.left_out import CONTAINERS, IPV6
from tests.sources.children import AS_NOBODY, IDLE, running
from tests.sources.nccl.job import Job, answer, communicator, job, rank

PAUSE_S = 0.001

ASKS = f"""
import sys
from gputui.errors import GputuiError
from gputui.sources.nccl.source import RasSource
{AS_NOBODY}
try:
    RasSource().question([int(sys.argv[1])])
except GputuiError as error:
    print("ready", error, flush=True)
"""


def source() -> RasSource:
    """To it, all processes have run for long."""
    return RasSource(clock=lambda: float("inf"))


def asked(of: Job, pid: int | None = None) -> list[Inquiry]:
    told: list[Inquiry] = []
    source().inquire(of.pids[0] if pid is None else pid, told.append, Event(), PAUSE_S)
    return told


def test_the_rank_that_is_behind_is_found_with_its_pid_here_and_what_it_does(tmp_path: Path):
    with job(tmp_path) as ranks:
        ahead, behind = ranks.pids
        far = rank(2, 4711, "10.255.0.7", AllReduce=100)
        ranks.answers(answer(communicator(rank(0, ahead, AllReduce=100), rank(1, behind, AllReduce=99), far)))
        first, second = asked(ranks)
        assert (first.second, first.is_over, second.is_over, ranks.questions) == (None, False, True, 2)
        (suspect,) = findings_of(second).suspects
        assert (suspect.rank, second.here[suspect.place]) == (1, behind)
        assert set(second.here.values()) == {ahead, behind}
        assert second.doing[behind].startswith("Its main thread ")


def test_nothing_is_asked_before_the_answer_to_the_question(tmp_path: Path):
    with job(tmp_path) as ranks:
        question = source().question(ranks.pids)
        assert question.pid == ranks.pids[0]
        assert "NCCL 2.29.3" in question.sentences[0]
        assert "never tried on real NCCL" in question.warning
        assert ranks.questions == 0


def test_of_a_job_the_first_process_that_may_be_asked_is_asked(tmp_path: Path):
    with job(tmp_path, ranks=1) as ranks, running(IDLE) as launcher:
        assert source().question((launcher.pid, *ranks.pids)).pid == ranks.pids[0]


def refused(pids: list[int], of: RasSource | None = None) -> str:
    with pytest.raises(GputuiError) as refusal:
        (of or source()).question(pids)
    return str(refusal.value)


@pytest.mark.parametrize(
    ("version", "words"),
    [("2.28.9", "NVIDIA/nccl#1762"), ("2.27.7", "NVIDIA/nccl#1762"), ("2.26.2", "#1669"), ("2.29.7", "#2346")],
)
def test_a_version_with_a_known_fault_is_not_asked(tmp_path: Path, version: str, words: str):
    with job(tmp_path, version=version) as ranks:
        assert words in refused(ranks.pids)
        (told,) = asked(ranks)
        assert (words in told.problem, told.is_over, ranks.questions) == (True, True, 0)


def test_versions_that_may_be_asked():
    may = [(2, 29, 2), (2, 29, 3), (2, 29, 8), (2, 30, 3), (2, 31, 2)]
    assert [refusal_of(version) for version in may] == [""] * len(may)
    assert "since 2.24" in refusal_of((2, 23, 4))


def test_a_process_that_has_just_started_is_not_asked(tmp_path: Path):
    with job(tmp_path) as ranks:
        assert "has started less than 2 minutes ago" in refused(ranks.pids, RasSource(clock=lambda: 0.0))


def test_a_rank_with_another_version_beside_it_on_the_port_is_not_asked(tmp_path: Path):
    """The kernel chooses which of those who share a port answers."""
    with job(tmp_path, ranks=1) as ranks, ranks.beside("2.27.3") as other:
        assert f"Process {other.pid}: NCCL 2.27.3" in refused(ranks.pids)


def test_a_process_that_does_not_listen_is_told_from_one_that_does():
    with running(IDLE) as idle:
        assert f"Process {idle.pid} does not listen on port 28028" in refused([idle.pid])


def test_a_process_without_nccls_library_is_not_asked(tmp_path: Path):
    with job(tmp_path, version="none of its own") as ranks:
        assert "cannot be told, so it is not asked" in refused(ranks.pids)


def test_a_process_that_has_ended_is_a_sentence():
    with running(IDLE) as idle:
        pass
    assert (
        refused([idle.pid])
        == f"Process {idle.pid} cannot be asked: the process has ended. Ask as its user, or as root."
    )


@pytest.mark.root
def test_a_process_of_another_user_is_a_sentence(tmp_path: Path):
    with job(tmp_path) as ranks, running(ASKS, str(ranks.pids[0])) as other:
        assert "permission denied" in " ".join(other.words)


@pytest.mark.root
@pytest.mark.needs(CONTAINERS)
def test_a_process_in_a_container_with_a_network_of_its_own_is_a_sentence():
    with running(IDLE, wrapper=("unshare", "--net")) as other:
        assert "is in a container with a network of its own" in refused([other.pid])


@pytest.mark.root
@pytest.mark.needs(CONTAINERS)
def test_a_rank_in_a_container_on_the_machines_network_is_found_by_its_pid_there(tmp_path: Path):
    with job(tmp_path, ranks=0) as ranks, ranks.beside("2.29.3", "unshare", "--pid", "--fork") as runtime:
        inside = int(Path(f"/proc/{runtime.pid}/task/{runtime.pid}/children").read_text())
        ranks.answers(answer(communicator(rank(0, 1, AllReduce=4), rank(1, 1, "10.255.0.7", AllReduce=5))))
        told = asked(ranks, inside)[-1]
    (suspect,) = findings_of(told).suspects
    assert told.here == {suspect.place: inside}
    assert suspect.title(inside) == f"Rank 0: behind, PID {inside} (1 in its container) here, GPU 0"


def test_an_answer_about_another_job_that_shares_the_port_is_not_taken_for_this_one(tmp_path: Path):
    with job(tmp_path) as ranks:
        ranks.answers(answer(communicator(rank(0, ranks.pids[1]))))
        (told,) = asked(ranks)
        assert told.problem.startswith("Another job of yours has answered")
        assert (told.first, ranks.questions) == (None, 1)


def test_a_second_answer_about_another_job_leaves_the_first(tmp_path: Path):
    with job(tmp_path) as ranks:
        own, other = (answer(communicator(rank(0, pid))) for pid in ranks.pids)
        ranks.answers(own, other)
        told = asked(ranks)[-1]
        assert told.problem.startswith("Another job of yours has answered")
        assert (told.first is None, told.second, told.is_over) == (False, None, True)


def test_while_a_communicator_is_made_there_is_no_second_question(tmp_path: Path):
    with job(tmp_path) as ranks:
        ranks.answers(answer(communicator(rank(0, ranks.pids[0], init_state=7))))
        (told,) = asked(ranks)
        assert "is being made just now" in told.problem
        assert ranks.questions == 1


def test_whoever_leaves_is_not_asked_for_again(tmp_path: Path):
    with job(tmp_path) as ranks:
        ranks.answers(answer(communicator(rank(0, ranks.pids[0]))))
        left = Event()
        left.set()
        told: list[Inquiry] = []
        source().inquire(ranks.pids[0], told.append, left)
        assert (len(told), ranks.questions) == (1, 1)


WITH_IPV6 = pytest.mark.needs(IPV6)


@pytest.mark.parametrize(
    ("family", "address"),
    [
        (socket.AF_INET, "127.0.0.1"),
        pytest.param(socket.AF_INET6, "::1", marks=WITH_IPV6),
        pytest.param(socket.AF_INET6, "::", marks=WITH_IPV6),
    ],
)
def test_the_kernels_table_tells_address_port_and_holder(family: socket.AddressFamily, address: str):
    with socket.create_server((address, 0), family=family) as server:
        port = server.getsockname()[1]
        (found,) = listening_on(ProcFs(), os.getpid(), port)
        assert (found.family, found.address, found.port, found.uid) == (family, address, port, os.geteuid())
        assert holders_of(ProcFs(), [found]) == {found.inode: os.getpid()}
        socket.create_connection(found.target).close()


def copied(path: Path) -> None:
    path.write_bytes(path.with_name("libnccl.so.2").read_bytes())


@pytest.mark.parametrize(
    "make", [copied, os.mkfifo, lambda path: path.symlink_to("/etc/hostname")], ids=["a copy", "a pipe", "a link"]
)
def test_a_library_that_was_replaced_since_it_was_loaded_says_no_version(
    tmp_path: Path, make: Callable[[Path], object]
):
    with job(tmp_path, ranks=1) as ranks:
        assert version_of(ProcFs(), ranks.pids[0]) == (2, 29, 3)
        (mapped,) = tmp_path.glob("nccl-*/libnccl.so.2")
        newer = mapped.with_name("newer")
        make(newer)
        newer.replace(mapped)
        assert version_of(ProcFs(), ranks.pids[0]) is None
