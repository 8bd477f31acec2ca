"""A training run with a viewer at ten times the default rate equals the run without the probe, bit for bit."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from gputui.model.attached.target import Look, Mark, Statistics
from gputui.sources.probe.client import ProbeClient
from tests.attach.children import DRIVEN, LIMIT_S, PASSED_OVER, Child, Python, wait_until
from tests.attach.small_training import TRAINING as SMALL_TRAINING
from tests.scale import scaled, sized

TENTH_OF_DEFAULT_S = 0.1
ROUNDS = scaled(3, 6)
"""Of steps, in each phase of the training run: the looks differ in three of them."""

TRAINING = (
    f"""
    import gputui.probe, hashlib, json, os, random, sys, torch
    {PASSED_OVER}
"""
    """
    torch.manual_seed(1)
    random.seed(1)
    torch.set_num_threads(1)
    cuda = torch.cuda.is_available()
    device = "cuda" if cuda else "cpu"
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(256, 8)
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    losses, addresses, kept = [], [], []
    origin = next(model.parameters()).data_ptr()  # the device's base address differs from run to run

    def digest(*values):
        return hashlib.sha256(repr(values).encode()).hexdigest()

    def step():
        optimizer.zero_grad()
        x = torch.randn(random.randrange(1, 64), 64).to(device)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        kept.append(torch.empty(random.randrange(1, 3 << 20), dtype=torch.uint8, device=device))
        if random.random() < 0.8:
            kept.pop(random.randrange(len(kept)))
        losses.append(loss.item())
        if cuda:
            addresses.append([tensor.data_ptr() - origin for tensor in (x, loss, *kept, *model.parameters())])

    def train(name):
        for number in range(int(sys.argv[1])):
            for _ in range(20):
                step()
            print("at", number, flush=True)
            input()
        print("end", name, json.dumps(state_of_the_run()), flush=True)
        input()

    def state_of_the_run():
        state = {
            "losses": digest(losses),
            "gradients": digest([parameter.grad.tolist() for parameter in model.parameters()]),
            "weights": digest([parameter.tolist() for parameter in model.parameters()]),
            "states": digest([[str(k), str(v)] for state in optimizer.state.values() for k, v in state.items()]),
            "random": digest(torch.get_rng_state().tolist(), random.getstate()),
        }
        if cuda:
            state["addresses"] = digest(addresses)
            state["statistics"] = [torch.cuda.memory_stats(device) for device in range(2)]
            snapshot = torch.cuda.memory._snapshot()
            state["segments"] = json.loads(json.dumps([
                [one["address"] - origin, one["stream"], [[b["size"], b["state"]] for b in one["blocks"]]]
                for one in snapshot["segments"]
            ]))
            state["history"] = [
                [[entry["action"], entry.get("addr", 0) - origin, entry["size"]] for entry in trace]
                for trace in snapshot["device_traces"]
            ]
            state["random of the device"] = digest(torch.cuda.get_rng_state().tolist())
        return state

    if cuda:
        torch.cuda.reset_peak_memory_stats()
    train("plain")
    if cuda:
        torch.cuda.memory._record_memory_history(max_entries=100_000, stacks="python")
    train("recorded")
    print("tasks", len(os.listdir("/proc/self/task")) - (gputui.probe.status()[0] == "/"), flush=True)
    raise SystemExit(3)
"""
)


class Viewer:
    """A viewer attached at ten times the default rate, with every message that it received."""

    def __init__(self, client: ProbeClient) -> None:
        self._client = client
        client.subscribe(TENTH_OF_DEFAULT_S)
        client.ask_look("walk", when="changed")
        self.seen: list[object] = []

    def watch_steps(self, *, child: Child, how: str | None) -> None:
        """Let the program take its next steps and look during them; without `how`, only read the counters."""
        if how is not None:
            self._client.mark("asked")  # an automatic look may be on its way, and arrives before this
            self._client.ask_look(how)
            while not isinstance(self._client.receive(LIMIT_S), Mark):
                pass
        child.say("go")
        message: object = None
        while not isinstance(message, Look if how is not None else Statistics):
            message = self._client.receive(LIMIT_S)
            assert message is not None
            self.seen.append(message)
        if how is not None:
            self._client.ask_look("walk", when="changed")


def run(python: Python, *, attached: bool) -> tuple[dict[str, Any], list[str], Viewer | None]:
    """The final state that the program reports for each phase, its other output, and its viewer."""
    child = python.start(
        TRAINING,
        str(ROUNDS),
        GPUTUI_PROBE="1" if attached else "0",
        PYTHONHASHSEED="0",
        CUBLAS_WORKSPACE_CONFIG=":4096:8",
    )
    states: dict[str, Any] = {}
    with ExitStack() as stack:
        viewer = None
        for phase in ("plain", "recorded"):
            for number in range(ROUNDS):
                child.expect(f"at {number}")
                if attached and viewer is None:
                    viewer = Viewer(stack.enter_context(child.attach()))
                if viewer:
                    how = None if phase == "recorded" else ("walk", "scan", "")[number % 3]
                    viewer.watch_steps(child=child, how=how)
                else:
                    child.say("go")
            states[phase] = json.loads(child.expect(f"end {phase}"))
            child.say("go")  # the looks on request have arrived: one would leave an entry in a history
        printed = [child.expect("tasks"), str(child.ended()), child.errors]
    return states, printed, viewer


@pytest.mark.every_torch
def test_a_viewer_changes_nothing_in_a_training_run(torch_python: Python) -> None:
    without, printed_without, _ = run(torch_python, attached=False)
    with_viewer, printed_with, viewer = run(torch_python, attached=True)
    for phase, state in without.items():
        for name, value in state.items():
            assert with_viewer[phase][name] == value, f"{phase}: {name}"
    assert printed_with == printed_without
    assert viewer is not None
    looks = [message for message in viewer.seen if isinstance(message, Look)]
    assert len(looks) >= ROUNDS
    assert len([look for look in looks if look.inventory is not None]) >= ROUNDS // 3


CYCLES = sized(12, 100)
"""A hundred viewers in the nightly run."""
AT_MOST_BYTES = 1024**2
AFTER = tuple(f"after round {number}" for number in range(1, 7))

COUNTED = (
    SMALL_TRAINING
    + """
    import gc, os, time

    things = [model, optimizer, optimizer.state, *model.modules(), *model.parameters(), None, True, False, 0, 1, (), ""]
    things += [parameter.grad for parameter in model.parameters()]
    gc.disable()  # garbage that a look leaves must be counted, not collected

    def report(name):
        while not os.path.exists(name):
            step()
            time.sleep(0.005)
        print(name, len(gc.get_objects()), *[sys.getrefcount(thing) for thing in things], flush=True)

    for name in ("before", *sys.argv[1:]):
        report(name)
"""
)


def visit(child: Child, number: int) -> None:
    """Attach, look in a way that depends on `number`, and disconnect, sometimes before the look arrives."""
    with child.attach() as client:
        client.subscribe(TENTH_OF_DEFAULT_S)
        client.ask_look("walk", when="changed")
        if number % 3:
            client.look(("walk", "scan", "")[number % 4 % 3])
        else:
            client.ask_look("scan")  # disconnects without waiting for the answer


@pytest.mark.long
def test_viewers_leak_no_references_descriptors_threads_or_memory(torch_python: Python) -> None:
    child = torch_python.fork(COUNTED, *AFTER, **DRIVEN)
    child.expect("ready")

    def open_counts() -> tuple[int, int]:
        return tuple(len(list(Path(f"/proc/{child.pid}/{what}").iterdir())) for what in ("fd", "task"))

    def after_viewers(count: int, name: str) -> tuple[list[int], int]:
        for number in range(count):
            visit(child, number)
        wait_until(lambda: open_counts() == alone, "the end of every connection")
        (torch_python.folder / name).touch()
        counts = [int(count) for count in child.expect(name).split()]
        return counts, child.anonymous_bytes()

    def grew_in_a_round(name: str) -> str:
        nonlocal counts, anonymous
        counts_before, anonymous_before = counts, anonymous
        counts, anonymous = after_viewers(CYCLES, name)
        drift = [abs(one - other) for one, other in zip(counts, counts_before, strict=True)]
        grown_bytes = anonymous - anonymous_before
        is_small = max(drift) < CYCLES / 4 and grown_bytes < AT_MOST_BYTES
        return "" if is_small else f"{grown_bytes} bytes, references and objects: {drift}"

    alone = open_counts()
    counts, anonymous = after_viewers(CYCLES // 5, "before")  # warms up caches and the heap
    # A leak grows in every round. The heap, and what the probe keeps of classes it meets, grow only now and then.
    growth = []
    for name in AFTER:
        growth.append(grew_in_a_round(name))
        if not growth[-1]:
            break
    assert not growth[-1], growth
    for name in AFTER:
        (torch_python.folder / name).touch()
    assert (child.ended(), child.errors) == (0, "")
