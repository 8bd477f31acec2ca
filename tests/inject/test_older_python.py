"""The whole probe, put into a program of an older Python than gputui itself needs.

$GPUTUI_TEST_OLDER is a colon-separated list of Pythons with a PyTorch, from 3.8 on; without it, this Python stands in,
at night: the tests of `attach` and `inject` do the same one by one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputui.inject import checks
from gputui.inject.loading import Phase, load
from gputui.model.attached.target import ActionName
from gputui.sources.probe import listing
from tests import torches
from tests.attach.children import Python, wait_until
from tests.inject.conftest import unprepared

PROGRAM = """
import warnings
warnings.simplefilter("ignore")
import collections, sys, threading, time
import torch
from torch.utils.checkpoint import checkpoint

device = "cuda" if torch.cuda.is_available() else "cpu"
seen, losses, by_step = collections.deque(maxlen=500), [], {}

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64)

    def forward(self, x):
        return x + self.norm(self.linear(x)).relu()

class Log:
    kept = []

def fail():
    big = torch.ones(1000, device=device)
    raise ValueError("kept with its locals: " + str(big.numel()))

def step(model, optimizer, number):
    x = torch.randn(8, 64, device=device)
    for block in model:
        x = checkpoint(block, x, use_reentrant=False) if number % 2 else block(x)
    loss = x.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss)
    seen.append(x)
    by_step[number % 100] = x.detach()
    Log.kept.append(x.detach())
    del losses[:-100], Log.kept[:-100]

def train():
    model = torch.nn.Sequential(*[Block() for _ in range(4)]).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    number = 0
    while not ended.is_set():
        step(model, optimizer, number)
        number += 1
        if number == 5:
            print("ready", flush=True)

ended = threading.Event()
try:
    fail()
except ValueError as error:
    last_error = error
threading.Thread(target=lambda: (sys.stdin.readline(), ended.set()), daemon=True).start()
train()
print("end", flush=True)
"""
pytestmark = pytest.mark.every_torch if "GPUTUI_TEST_OLDER" in os.environ else pytest.mark.night
BROKEN = ("could not be read", "TypeError", "AttributeError", "failed")


def pythons() -> list[str]:
    return [path for path in os.environ.get("GPUTUI_TEST_OLDER", "").split(":") if path] or [sys.executable]


@pytest.fixture(params=pythons(), ids=lambda path: Path(path).absolute().parents[1].name)
def older(request: pytest.FixtureRequest, tmp_path: Path, sockets: Path) -> Iterator[Python]:
    yield from unprepared(request.param, tmp_path, torches.fake_cuda(request.param, tmp_path))


def test_looks_actions_and_a_recorded_step_work(older: Python) -> None:
    child = older.start(PROGRAM)
    child.expect("ready")
    sentences: list[str] = []
    loading = load(checks.examine(child.pid))
    wait_until(lambda: loading.progress().phase is Phase.LOADED, "the probe")
    with listing.attach(child.pid) as client:
        client.statistics()
        for how in ("walk", "scan", "walk"):
            look = client.look(how)
            assert look.inventory is not None
            assert look.inventory.storages
            sentences += map(str, (*look.problems, *look.inventory.problems))
        client.mark("a mark")
        sentences.append(client.run_action(ActionName.COLLECT).reason)
        if look.map is not None:
            recorded, result = client.record_step()
            assert recorded is not None, result.reason
        client.end_probe()
    assert [sentence for sentence in sentences if any(words in sentence for words in BROKEN)] == []
    child.say("end")
    child.expect("end")
    assert (child.ended(), child.errors) == (0, "")
