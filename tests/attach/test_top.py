"""Looks near the top of a step, in a training that the GPU bounds and in one that Python bounds."""

from __future__ import annotations

import json

import pytest

from gputui.explain.memory.need import need_of
from gputui.explain.moment.probe_state import ProbeState, after, at_top, moment_among
from gputui.model.attached.moment import Surroundings, TargetMoment
from gputui.model.attached.target import Look
from gputui.model.attached.tensors import Category
from tests.attach.children import LIMIT_S, Child, Python
from tests.attach.command import attach

TRAINING = """
    import gputui.probe, torch
    torch.backends.cudnn.enabled = False

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(256, 256)

        def forward(self, hidden):
            return torch.relu(self.fc(hidden))

    model = torch.nn.Sequential(*(Layer() for _ in range(40))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())

    def step(batch):
        loss = model(torch.ones(batch, 256, device="cuda")).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    def train(steps):
        for number in range(steps):
            step(8192)

    train(3)
    torch.cuda.reset_peak_memory_stats()
    step(8192)
    print("needs", torch.cuda.max_memory_allocated(), flush=True)
    train(10**9)
"""
BOUND = {"by the GPU": "100", "by Python": "0"}
IN_AN_OPERATION_BYTES = 3 * 8192 * 256 * 4
"""No Python object holds yet what an operation was given without a name, and what it and the next one return."""
LOOKS = 60
"""After so many looks one near the top should have come, even on a busy machine: two of three wait for it."""


@pytest.fixture(params=BOUND.values(), ids=BOUND.keys())
def training(request: pytest.FixtureRequest, cuda_python: Python) -> Child:
    return cuda_python.fork(TRAINING, FAKEGPU_KERNEL_US=request.param)


def watched(child: Child) -> TargetMoment:
    """The moment after a look near the top, or after `LOOKS`."""
    with child.attach() as client:
        state = ProbeState(client.greeting)
        client.subscribe(0.5)
        client.ask_look(when="changed")
        looks = 0
        while looks < LOOKS:
            message = client.receive(LIMIT_S)
            assert message is not None, "the probe sends nothing more"
            state = after(state, message)
            moment = moment_among(state, Surroundings(state.readings[-1][0] if state.readings else 0.0))
            if isinstance(message, Look):
                looks += 1
                client.ask_look(when="changed")
                if has_activations(moment):
                    break
    return moment


def has_activations(moment: TargetMoment) -> bool:
    top = at_top(moment)
    device = top.devices[0] if top else None
    if device is None or device.layout is None or device.swing is None or device.swing.step_s is None:
        return False
    return device.statistics.allocated_bytes >= 0.9 * device.swing.highest_allocated_bytes


def test_a_look_near_the_top_shows_the_activations(training: Child) -> None:
    needs = int(training.expect("needs"))
    moment = watched(training)
    need, top = need_of(moment.devices[0]), at_top(moment)
    assert need is not None
    assert top is not None
    assert need.highest_bytes == pytest.approx(needs, rel=0.05)
    assert has_activations(moment)
    assert top.devices[0].layout is not None
    by_category = top.devices[0].layout.by_category
    assert by_category[Category.ACTIVATION] > 0.5 * need.within_bytes
    assert by_category[Category.UNATTRIBUTED] <= IN_AN_OPERATION_BYTES


def test_a_single_look_says_what_a_step_needs(training: Child) -> None:
    needs = int(training.expect("needs"))
    status, out, err = attach(str(training.pid), "--once", "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["devices"][0]["step"]["highest_allocated_bytes"] == pytest.approx(needs, rel=0.05)
    _, text, _ = attach(str(training.pid), "--once")
    assert " ".join(text.splitlines()[1:3]).startswith("Each step needs up to ")


@pytest.mark.parametrize("training", [BOUND["by the GPU"]], indirect=True)
def test_a_single_look_without_automatic_ones_has_the_counters_need(training: Child) -> None:
    training.expect("needs")
    status, out, _ = attach(str(training.pid), "--once", "--json", "--pause", "off")
    assert status == 0
    step = json.loads(out)["devices"][0]["step"]
    assert step["highest_allocated_bytes"] > step["lowest_allocated_bytes"]


def test_a_program_that_rests_is_not_watched_for_long(cuda_python: Python) -> None:
    child = cuda_python.fork(
        "import gputui.probe, torch\nkept = torch.ones(1 << 20, device='cuda')\nprint('ready', flush=True)\ninput()"
    )
    child.expect("ready")
    status, out, _ = attach(str(child.pid), "--once", "--json")
    assert status == 0
    assert json.loads(out)["devices"][0]["step"] is None
