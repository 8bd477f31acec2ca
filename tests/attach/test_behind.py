"""Real ranks of a job, one of which does not come to its next collective: who keeps whom waiting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gputui.explain.moment.probe_state import ProbeState, after, moment_among
from gputui.explain.ranks.behind import STANDS_S, sentences
from gputui.model.attached.moment import Surroundings, TargetMoment
from gputui.model.attached.target import Statistics
from gputui.sources.probe.client import ProbeClient
from tests import torches
from tests.attach.children import Python

RANK = """
    import os
    import torch, torch.distributed as dist
    import gputui.probe

    def load_batch():
        return input()

    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    held = torch.ones(1 << 20, device="cuda")
    dist.init_process_group("gloo", init_method="file://" + os.environ["STORE"], rank=rank, world_size=3)
    pair = dist.new_group([0, 1], group_desc="data_parallel")
    gradient = torch.ones(4)
    for step in range(2):
        dist.all_reduce(gradient, group=pair)
    dist.barrier()
    print("ready", flush=True)
    if rank == 1:
        load_batch()
    dist.all_reduce(gradient, group=pair)
    print("done", flush=True)
    input()
"""


@pytest.fixture
def small(cuda_path: str, tmp_path: Path, sockets: Path) -> Iterator[Python]:
    """A Python with a CUDA build of PyTorch and three fake devices of 8 GiB."""
    python = Python(cuda_path, tmp_path, torches.fake_cuda(cuda_path, tmp_path, gpus=3, memory_gib=8))
    yield python
    python.end()


def counters(client: ProbeClient, launched: int) -> Statistics:
    """The counters once so many collectives of the group of two are launched."""
    while True:
        counted = client.statistics()
        if any(group.name == "data_parallel" and group.launched == launched for group in counted.groups):
            return counted


def moment(client: ProbeClient, counted: Statistics, later_s: float) -> TargetMoment:
    """What screens would have so many seconds after these counters, if nothing were launched meanwhile."""
    state = after(ProbeState(client.greeting), counted)
    return moment_among(state, Surroundings(counted.time + later_s))


def test_a_rank_that_does_not_come_to_its_collective_is_named_with_what_it_does(small: Python, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ranks = [small.fork(RANK, RANK=str(rank), WORLD_SIZE="3", STORE=str(store)) for rank in range(3)]
    for rank in ranks:
        rank.expect("ready")
    with ExitStack() as stack:
        clients = [stack.enter_context(rank.attach()) for rank in ranks[:2]]
        for client in clients:
            client.subscribe(0.25)
        counted = [counters(client, launched) for client, launched in zip(clients, (3, 2), strict=True)]
        (group,) = (group for group in counted[0].groups if group.name == "data_parallel")
        assert (group.size, group.first_rank, group.rank) == (2, 0, 0)
        assert {group.name for group in counted[0].groups} == {"default_pg", "data_parallel"}
        assert not sentences([moment(*pair, later_s=1) for pair in zip(clients, counted, strict=True)])
        waits_s = 4 * STANDS_S
        (words,) = sentences([moment(*pair, later_s=waits_s) for pair in zip(clients, counted, strict=True)])
        assert words.startswith(f"Rank 1 (PID {ranks[1].pid}) has kept 1 rank waiting for {waits_s:.0f} s")
        assert "it has launched 2 collectives in data_parallel, the other 3." in words
        assert words.endswith(" in load_batch.")

        ranks[1].say("a batch")
        counted = [counters(client, 3) for client in clients]
        assert not sentences([moment(*pair, later_s=waits_s) for pair in zip(clients, counted, strict=True)])
