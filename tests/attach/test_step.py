"""A recorded step of real programs: its peak is PyTorch's to the byte, and its holders are those of a look by hand."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from gputui import cli
from gputui.explain.owners.owners import block_bytes, bytes_by_category, owners_of
from gputui.explain.step.kinds import Kind
from gputui.explain.step.phases import Phase
from gputui.explain.step.step import Grouping, Step, step_of
from gputui.model.attached.target import ActionName, Recorder
from gputui.model.attached.tensors import Category
from gputui.model.attached.trace import ALLOC, FREE_REQUESTED, RecordedTraces, Trace
from gputui.probe.viewers.ring import ring_length
from gputui.units import GIB
from tests.attach.children import Child, Python

LOOP = """
    import gputui.probe, json, os, sys, time, torch
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_cudnn_sdp(False)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def train(step):
        for _ in range(3):
            step()
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        step()
        peak = torch.cuda.max_memory_allocated() if device == "cuda" else 0
        print("ready", device, peak, flush=True)
        end = time.monotonic() + 600
        while time.monotonic() < end:
            step()
"""
PROGRAMS = {
    "gpt": """
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.LayerNorm(128)
            self.attention = torch.nn.MultiheadAttention(128, 4, batch_first=True)
            self.mlp = torch.nn.Sequential(torch.nn.Linear(128, 512), torch.nn.GELU(), torch.nn.Linear(512, 128))

        def forward(self, x):
            y = self.norm(x)
            x = x + self.attention(y, y, y, need_weights=False)[0]
            return x + self.mlp(x)

    model = torch.nn.Sequential(*(Block() for _ in range(4)), torch.nn.Linear(128, 5000)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())

    def step():
        loss = torch.nn.functional.cross_entropy(
            model(torch.randn(8, 64, 128, device=device)).flatten(0, 1),
            torch.zeros(512, dtype=torch.long, device=device),
        )
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
""",
    "resnet": """
    class Block(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.conv1 = torch.nn.Conv2d(width, width, 3, padding=1)
            self.conv2 = torch.nn.Conv2d(width, width, 3, padding=1)
            self.norm = torch.nn.BatchNorm2d(width)

        def forward(self, x):
            return torch.relu(x + self.norm(self.conv2(torch.relu(self.conv1(x)))))

    layers = torch.nn.Conv2d(3, 32, 7, stride=2), Block(32), Block(32), torch.nn.AdaptiveAvgPool2d(1)
    model = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(32, 100)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step():
        model(torch.randn(16, 3, 96, 96, device=device)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
    "lora": """
    class Lora(torch.nn.Module):
        def __init__(self, width, rank=4):
            super().__init__()
            self.base = torch.nn.Linear(width, width).requires_grad_(False)
            self.a = torch.nn.Linear(width, rank, bias=False)
            self.b = torch.nn.Linear(rank, width, bias=False)

        def forward(self, x):
            return torch.nn.functional.gelu(self.base(x) + self.b(self.a(x)))

    model = torch.nn.Sequential(*(Lora(512) for _ in range(6))).to(device)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])

    def step():
        for _ in range(2):  # two passes for each update
            model(torch.randn(64, 512, device=device)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
""",
}
SEED = """
    def step():
        x = torch.rand(768, 1024, 1024, device=device, requires_grad=True)
        y = 5 * x
        y.mean().backward()
"""


def start(torch_python: Python, program: str) -> tuple[Child, int]:
    """A program that trains for ever, and the peak of one step; a peak of 0 means that there is no GPU."""
    child = torch_python.fork(LOOP + program + "\n    train(step)\n")
    device, peak = child.expect("ready").split()
    assert (int(peak) > 0) == (device == "cuda")
    return child, int(peak)


def recorded_step(child: Child) -> tuple[Step, RecordedTraces]:
    with child.attach() as client:
        client.look()
        recorded, result = client.record_step()
        assert result.reason == ""
        assert recorded is not None
        assert client.statistics().history is Recorder.NOBODY
    step = step_of(recorded.traces[0], recorded.look)
    assert step is not None
    return step, recorded


@pytest.mark.every_torch
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_peak_of_a_step_is_pytorchs_to_the_byte(name: str, torch_python: Python) -> None:
    child, peak = start(torch_python, PROGRAMS[name])
    if not peak:
        with child.attach() as client:
            assert "has not initialised CUDA" in client.record_step()[1].reason
        return
    step, recorded = recorded_step(child)
    timeline = step.timeline
    assert step.is_whole
    assert step.steps
    assert timeline.allocated[step.peak] == peak
    assert sum(step.bytes_by_kind(step.peak).values()) == peak
    allocating = {Phase.FORWARD, Phase.BACKWARD} | ({Phase.OPTIMIZER} if "AdamW" in PROGRAMS[name] else set())
    assert {run.phase for run in step.phases_within()} == allocating
    assert Kind.GRADIENT in {kind for event in range(step.first, step.end, 7) for kind in step.bytes_by_kind(event)}
    assert_end_equals_the_look(step, recorded)


def assert_end_equals_the_look(step: Step, recorded: RecordedTraces) -> None:
    """What is alive after the last event is what the look says, in bytes by category."""
    layout, inventory, device = recorded.look.map, recorded.look.inventory, step.timeline.trace.device
    assert layout is not None
    looked = bytes_by_category(block_bytes(layout, owners_of(layout, inventory, device), device))
    traced = step.bytes_by_kind(len(step.timeline) - 1)
    kinds = {Kind.PARAMETER: Category.PARAMETER, Kind.OPTIMIZER_STATE: Category.OPTIMIZER_STATE}
    for kind, category in kinds.items():
        assert traced.get(kind, 0) == looked[category], kind
    assert sum(traced.values()) == sum(looked.values())
    counted = next(counted for counted in recorded.look.statistics if counted.device == device)
    assert step.timeline.allocated[-1] == counted.allocated_bytes
    assert step.timeline.reserved[-1] == counted.reserved_bytes


def test_the_mean_of_five_x_peaks_at_twelve_gib_with_its_four_holders(torch_python: Python) -> None:
    child, peak = start(torch_python, SEED)
    if not peak:
        return
    step, _ = recorded_step(child)
    assert step.timeline.allocated[step.peak] == peak
    assert round(peak / GIB, 1) == 12.0
    large = [group for group in step.holders(step.peak, Grouping.SIZE) if group.bytes >= GIB]
    assert [group.bytes for group in large] == [3 * GIB] * 4
    lines = (torch_python.folder / "train.py").read_text().split("\n")
    x, y = (
        f"{torch_python.folder.name}/train.py:{1 + lines.index(f'    {line}')} in step"
        for line in ("x = torch.rand(768, 1024, 1024, device=device, requires_grad=True)", "y = 5 * x")
    )
    # The look that goes with the recording finds some of them in variables; the others are known by their lines.
    holders = {"x": x, "y": y, "x.grad": "backward (no Python line)"}
    named = {holders.get(group.name.partition(" (train.py")[0], group.name) for group in large}
    assert named == set(holders.values())


RINGS = {
    "a quiet machine": (2, 3, [1000], 15_666),
    "a fast machine": (1, 1.5, [1000], 16_000),
    "a busy machine": (4, 14, [1000], 2_100),
    "a first call that was slow": (50, 3, [1000], 15_666),
    "two devices": (4, 14, [500, 500], 1_050),
    "a large map": (30, 60, [1000], 500),
    "a machine that stands still": (2000, 4000, [1000], 500),
    "no event": (2, 2, [], 16_000),
}


@pytest.mark.parametrize(("without_ms", "with_ms", "counts", "events"), RINGS.values(), ids=RINGS)
def test_the_ring_is_as_long_as_can_be_read_in_time(without_ms, with_ms, counts, events) -> None:
    assert ring_length(without_ms / 1000, with_ms / 1000, counts) == events


def test_on_a_slow_machine_fewer_events_are_recorded_and_still_a_whole_step(torch_python: Python) -> None:
    slow = """
    from gputui.probe.viewers import step as recorder
    length, recorder.AT_LEAST_S = recorder.ring_length, 1.0
    recorder.ring_length = lambda without_s, with_s, counts: length(0.004, 0.014, [1000])
    """
    child, peak = start(torch_python, slow + PROGRAMS["lora"])
    if not peak:
        return
    step, recorded = recorded_step(child)
    assert recorded.max_events == 2100
    assert len(step.timeline) <= 2100
    assert (step.is_whole, step.timeline.allocated[step.peak]) == (True, peak)


EMPTYING = """
    def step():
        x = torch.ones(1000, device=device)
        del x
        torch.cuda.empty_cache()  # returns the segment
        torch.cuda.empty_cache()  # returns nothing, and leaves no event
        time.sleep(0.001)
"""


def test_calls_of_empty_cache_are_noted_between_the_events(torch_python: Python) -> None:
    child, peak = start(torch_python, EMPTYING)
    if not peak:
        return
    with child.attach() as client:
        recorded, _ = client.record_step()
        again, _ = client.record_step()
    for one in (recorded, again):
        assert one is not None
        (trace,) = one.traces
        requests = sum(action in (ALLOC, FREE_REQUESTED) for action in trace.actions)
        calls = trace.empty_cache_calls
        assert calls is not None
        assert len(calls) >= requests - 4
        assert len(set(calls)) == len(calls) // 2 + len(calls) % 2
        frees = {place for place, event in enumerate(requests_of(trace), 1) if event == FREE_REQUESTED}
        assert set(calls) <= {0, *frees}


def requests_of(trace: Trace) -> list[int]:
    """Requests and frees in their order."""
    return [action for action in trace.actions if action in (ALLOC, FREE_REQUESTED)]


def test_the_programs_own_history_and_forbidden_actions_keep_a_step_from_being_recorded(torch_python: Python) -> None:
    begins = "\n    if device == 'cuda':\n        torch.cuda.memory._record_memory_history(max_entries=100)\n"
    child, peak = start(torch_python, begins + PROGRAMS["lora"])
    with child.attach() as client:
        recorded, result = client.record_step()
    assert recorded is None
    assert ("records its memory history itself" if peak else "not initialised CUDA") in result.reason


def test_a_recording_ends_when_its_viewer_leaves(torch_python: Python) -> None:
    child, peak = start(torch_python, PROGRAMS["lora"])
    if not peak:
        return
    with child.attach() as other:
        with child.attach() as client:
            client.ask_action(ActionName.RECORD_STEP)
            while other.statistics().history is not Recorder.PROBE:
                pass
        while other.statistics().history is not Recorder.NOBODY:
            pass
        recorded, result = other.record_step()
        assert (result.reason, recorded is None) == ("", False)


def test_the_command_prints_the_peak_and_writes_pytorchs_format(torch_python: Python, capsys) -> None:
    child, peak = start(torch_python, PROGRAMS["gpt"])
    path = torch_python.folder / "step.pickle"
    arguments = ["step", str(child.pid), "--once", "-o", str(path)]
    assert cli.main(arguments) == 2
    assert "confirm with --yes" in capsys.readouterr().err
    status = cli.main([*arguments, "--yes"])
    output = capsys.readouterr()
    if not peak:
        assert status == 1
        assert "No step of process" in output.err
        return
    assert status == 0, output.err
    assert output.out.startswith("Peak ")
    assert "the program stopped once for" in " ".join(output.out.split())
    written = pickle.loads(path.read_bytes())
    events = written["device_traces"][0]
    assert {"alloc", "free_requested", "free_completed"} <= {event["action"] for event in events}
    assert any(frame["filename"].endswith("train.py") for event in events for frame in event["frames"])
    assert all(event["user_metadata"] for event in events if event["action"] == "alloc")
    assert cli.main([*arguments, "--yes"]) == 2
    assert "overwrites nothing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["train"], "'train' is not a PID.", id="no PID"),
        pytest.param(["1234567890", "--yes"], "There is no process 1234567890 here.", id="no process"),
        pytest.param(["1", "-o", "/nowhere/at/all.pickle"], "There is no folder /nowhere/at.", id="no folder"),
    ],
)
def test_a_wrong_command_line_is_refused_with_a_reason(arguments, words, capsys, tmp_path: Path) -> None:
    assert cli.main(["step", *arguments]) in (1, 2)
    assert words in capsys.readouterr().err


def test_reading_stacks_does_not_import_pytorchs_compiler(torch_python: Python) -> None:
    source = """
    number = 0

    def step():
        global number
        number += 1
        x = torch.rand(1000, device=device, requires_grad=True)
        (5 * x).mean().backward()
        time.sleep(0.001)
        if number % 100:
            return
        when = "after" if os.path.exists("looked") else "before"
        print("compiler", when, "torch._inductor" in sys.modules, vars(torch).get("_inductor"), flush=True)
"""
    child = torch_python.start(LOOP + source + "\n    train(step)\n")
    device, _ = child.expect("ready").split()
    before = child.expect("compiler before")
    with child.attach() as client:
        assert (client.record_step()[1].reason == "") == (device == "cuda")
        assert (client.run_action(ActionName.HISTORY_ON).reason == "") == (device == "cuda")
        client.look()
        (torch_python.folder / "looked").touch()
    for _ in range(3):
        assert child.expect("compiler after") == before
    assert before == "False None"
