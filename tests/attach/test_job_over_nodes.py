"""`gputui attach --job JOB --hosts NODE,NODE`: the ranks of a job over its nodes, each with its own sshd and GPUs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.attach.children import Child, Python
from tests.attach.command import attach
from tests.attach.nodes import SSHD, reaching, running_node
from tests.fakegpu.lab import Lab

pytestmark = [pytest.mark.needs(SSHD), pytest.mark.needs("ssh")]
WAITING = "import gputui.probe\nprint('ready', flush=True)\ninput()"
MEETING = "10.0.0.1:29500"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory, fake_nvml_folder: Path) -> Iterator[tuple[dict[str, Lab], dict]]:
    """The GPUs of two nodes, and the variables of a viewer that reaches them."""
    folder, labs = tmp_path_factory.mktemp("nodes"), {}
    with ExitStack() as stack:
        for seed, name in enumerate(("n1", "n2")):
            labs[name] = Lab(folder / f"gpus of {name}", is_new=True)
            labs[name].up(2, seed=seed)
            variables = labs[name].environment_of(fake_nvml_folder)
            stack.enter_context(running_node(folder / name, name=name, variables=variables, is_apart=True))
        yield labs, reaching(folder, [folder / name / "config" for name in labs])


@pytest.fixture
def job(nodes: tuple[dict[str, Lab], dict[str, str]], python: Python) -> Iterator[dict[str, Child]]:
    """A rank on each node."""
    labs, ranks = nodes[0], {}
    for rank, (name, lab) in enumerate(labs.items()):
        place = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
        ranks[name] = python.start(WAITING, MASTER_ADDR="10.0.0.1", MASTER_PORT="29500", **place)
        ranks[name].expect("ready")
        lab.process(ranks[name].pid, {0: 1024})
    yield ranks
    for lab in labs.values():
        lab.clear("processes")


@pytest.mark.parametrize("is_by_name", [True, False], ids=["by its name", "by one of its processes"])
def test_all_ranks_of_a_job_are_attached_to(nodes, job: dict[str, Child], *, is_by_name: bool) -> None:
    word = MEETING if is_by_name else f"n2:{job['n2'].pid}"
    status, output, errors = attach("--job", word, "--hosts", "n1,n2", "--once", "--json", environment=nodes[1])
    assert (status, errors) == (0, "")
    documents = [json.loads(line) for line in output.splitlines()]
    assert {(d["node"], d["pid"], d["rank"]) for d in documents} == {
        (name, child.pid, rank) for rank, (name, child) in enumerate(job.items())
    }


def test_a_node_that_does_not_answer_is_said(nodes, job: dict[str, Child]) -> None:
    words = ("--job", MEETING, "--hosts", "n1,n2,nowhere.invalid", "--once")
    status, output, errors = attach(*words, environment=nodes[1])
    assert status == 0
    assert errors == f"gputui: nowhere.invalid did not answer: the processes of job {MEETING} there are left out.\n"
    assert [line.split()[0] for line in output.splitlines() if line.startswith("n")] == [
        f"{name}:{child.pid}" for name, child in job.items()
    ]


def test_what_there_is_instead_is_said(nodes, job: dict[str, Child]) -> None:
    assert attach("--job", "4711", "--hosts", "n1", "n2", environment=nodes[1]) == (
        1,
        "",
        f"gputui: There is no job 4711 with processes on the GPUs of these nodes. There are: PyTorch job {MEETING}.\n",
    )


def test_nodes_without_a_job() -> None:
    status, output, errors = attach("--hosts", "n1", environment={})
    assert (status, output) == (2, "")
    assert errors.startswith("gputui: --hosts says on which nodes the processes of a job are. Name the job, too: ")
