"""`gputui run torchrun`: every rank has a probe, and the launcher's PID leads to them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gputui.sources.probe import listing
from tests.attach.children import Python, wait_until
from tests.attach.command import attach

RANK = """
import os, time, torch
print(f"rank {os.environ['RANK']}\\n", end="", flush=True)  # in one write: both ranks print to one pipe
launcher = os.getppid()
while not os.path.exists("done") and os.getppid() == launcher:
    time.sleep(0.01)
"""


def test_every_rank_of_torchrun_can_be_attached_to(torch_python: Python) -> None:
    (torch_python.folder / "train.py").write_text(RANK)
    torchrun = str(Path(torch_python.path).parent / "torchrun")
    words = [torchrun, "--standalone", "--nproc-per-node", "2", "train.py"]  # --standalone picks a free port
    launcher = torch_python.run([sys.executable, "-m", "gputui", "run", *words])
    assert {launcher.expect("rank"), launcher.expect("rank")} == {"0", "1"}

    def ranks() -> dict[int | None, int]:
        return {probe.greeting.rank: probe.pid for probe in listing.list_probes() if probe.greeting}

    wait_until(lambda: {0, 1} <= ranks().keys(), "the probes of both ranks")
    for rank in (0, 1):
        with listing.attach(ranks()[rank]) as client:
            assert (client.greeting.rank, client.greeting.world_size) == (rank, 2)
            assert client.look().inventory is not None
    status, output, _ = attach(str(launcher.pid), "--once")
    assert status == 0
    assert f"The processes that it started: gputui attach --job {launcher.pid}" in output
    (torch_python.folder / "done").touch()
    assert launcher.ended() == 0
    with pytest.raises(listing.CannotAttachError):
        listing.attach(launcher.pid)
