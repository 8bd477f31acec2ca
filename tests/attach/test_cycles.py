"""Memory that only reference cycles keep is told with what `gc.collect()` then frees, and nothing else is said so."""

from __future__ import annotations

import json
import textwrap

import pytest

from gputui.explain.answer.answers import Answer
from gputui.explain.memory.unreachable import Candidates
from gputui.explain.moment.probe_state import ProbeState, after
from gputui.model.attached.target import ActionName, Garbage
from gputui.protocol.pauses import AUTOMATIC_S
from gputui.sources.probe.garbage import proof_request
from gputui.sources.probe.one_moment import with_garbage
from tests.attach.children import Python
from tests.attach.command import attach
from tests.attach.following import follow, of_kind
from tests.hanging import HANGS_S

BEGINNING = """
import gputui.probe, functools, gc, torch
from torch import nn

gc.disable()
gc.collect()
gc.freeze()
"""
ASLEEP = """
print("ready", flush=True)
input()
before = torch.cuda.memory_allocated()
gc.collect()
print("freed", before - torch.cuda.memory_allocated(), flush=True)
input()
"""
AWAKE = """
import os, time
print("ready", flush=True)
while not os.path.exists("never"):
    time.sleep(0.001)
"""
HOOK = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2048, 2048, bias=False)
        def hook(module, inputs, output):
            return self.fc(output)
        self.register_forward_hook(hook)

for _ in range(20):
    with torch.device("cuda"):
        net = Net()
"""
PARENT_AND_CHILD = """
class Callback:
    def __init__(self, trainer):
        self.trainer = trainer

class Trainer:
    def __init__(self):
        self.model = nn.Linear(2048, 2048, device="cuda")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), fused=True)
        self.callbacks = [Callback(self)]
    def fit(self):
        self.model(torch.zeros(8, 2048, device="cuda")).sum().backward()
        self.optimizer.step()

for _ in range(20):
    Trainer().fit()
"""
EXCEPTION = """
def failing():
    batch = torch.zeros(4 << 20, device="cuda")
    try:
        raise RuntimeError("bad batch")
    except RuntimeError as error:
        kept = error

for _ in range(20):
    failing()
"""
BOUND_METHOD = """
class Loader:
    def __init__(self):
        self.batch = torch.zeros(4 << 20, device="cuda")
        self.transform = self.flip
    def flip(self):
        return self.batch.flip(0)

for _ in range(20):
    Loader()
"""
PARTIAL_WITH_SLOTS = """
class Node:
    __slots__ = ("value", "visit")
    def __init__(self):
        self.value = torch.zeros(4 << 20, device="cuda")
        self.visit = functools.partial(print, self)

for _ in range(20):
    Node()
"""
CYCLES = {
    "a hook": (HOOK, "Net that only cycles keep (hook (", "let hook() use its argument"),
    "parent and child": (
        PARENT_AND_CHILD,
        "(Trainer and Callback refer to each other)",
        "make one of the references a weakref.ref",
    ),
    "an exception": (EXCEPTION, "a variable of failing() that holds it", "delete the variable of failing()"),
    "a bound method": (BOUND_METHOD, "(Loader holds a method of its own)", "make one of the references a weakref.ref"),
    "a partial": (
        PARTIAL_WITH_SLOTS,
        "(Node and partial refer to each other)",
        "make one of the references a weakref.ref",
    ),
}
FIRST_OPTIMIZER = """
import gputui.probe, gc, torch

gc.disable()

def train_fold():
    model = torch.nn.Linear(2048, 2048, device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    model(torch.zeros(8, 2048, device="cuda")).sum().backward()
    optimizer.step()

train_fold()
"""
ALIVE = {
    "in a container": f"{PARENT_AND_CHILD}\nkept = {{'of': [{{'trainers': [Trainer() for _ in range(8)]}}]}}\n",
    "in a closure": f"""{BOUND_METHOD}
def keep(loaders):
    return lambda: loaders
get = keep([Loader() for _ in range(8)])
""",
    "in a generator": f"""{BOUND_METHOD}
def batches():
    loaders = [Loader() for _ in range(8)]
    yield 0
    print(loaders)
running = batches()
next(running)
""",
    "in C++": """
def inner():
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(4)]).cuda()
    model(torch.zeros(8, 1024, device="cuda")).tanh().sum().backward(create_graph=True)

for _ in range(20):
    inner()
""",
}


@pytest.mark.parametrize(("source", "line", "remedy"), CYCLES.values(), ids=CYCLES)
def test_what_a_collection_frees_is_told_to_the_byte(cuda_python: Python, source, line, remedy):
    child = cuda_python.fork(textwrap.dedent(BEGINNING + source + ASLEEP))
    child.expect("ready")
    document = _document(cuda_python, child.pid)
    (finding,) = [found for found in document["findings"] if "gc.collect()" in found["title"] + found["remedy"]]
    assert finding["kind"] == "kept_by_cycle"
    assert line in " ".join([finding["title"], *finding["evidence"]])
    assert remedy in finding["remedy"]
    child.say("")
    assert finding["bytes"] == document["devices"][0]["gc_collect"]["freed_bytes"] == int(child.expect("freed")) > 0


@pytest.mark.night
def test_what_the_import_of_the_first_optimizer_keeps_is_told(cuda_python: Python):
    """An exception that is caught while modules import one another keeps the frames of all callers in a cycle."""
    child = cuda_python.start(textwrap.dedent(FIRST_OPTIMIZER + ASLEEP))
    child.expect("ready")
    document = _document(cuda_python, child.pid)
    (finding,) = [found for found in document["findings"] if found["kind"] == "kept_by_cycle"]
    assert "an import, the frame of train_fold" in finding["title"]
    assert "imports torch._dynamo" in finding["remedy"]
    child.say("")
    freed_bytes = int(child.expect("freed"))
    collection = document["devices"][0]["gc_collect"]
    is_proven = bool(collection) and collection["freed_bytes"] is not None  # not where other programs take the time
    assert freed_bytes > 0
    assert finding["bytes"] == pytest.approx(freed_bytes, rel=0 if is_proven else 0.05)


@pytest.mark.parametrize("source", ALIVE.values(), ids=ALIVE)
def test_nothing_is_said_to_be_freed_that_stays(cuda_python: Python, source):
    child = cuda_python.fork(textwrap.dedent(BEGINNING + source + "\ngc.collect()\n" + ASLEEP))
    child.expect("ready")
    assert [found for found in _document(cuda_python, child.pid)["findings"] if found["kind"] == "kept_by_cycle"] == []


def test_the_action_says_what_was_predicted(cuda_python: Python):
    child = cuda_python.fork(textwrap.dedent(BEGINNING + HOOK + AWAKE))
    child.expect("ready")
    with child.attach() as client:
        state = with_garbage(client, after(ProbeState(client.greeting), client.look("scan")), AUTOMATIC_S)
        outcome = after(state, client.run_action(ActionName.COLLECT)).outcome
    assert outcome is not None
    assert outcome.is_as_predicted
    assert "304 MiB predicted, 304 MiB of tensors freed on device 0" in outcome.sentences[0]


def test_addresses_of_no_objects_are_nothing_to_free(cuda_python: Python):
    child = cuda_python.fork(textwrap.dedent(BEGINNING + HOOK + AWAKE))
    child.expect("ready")
    addresses = dict.fromkeys((1, 16, 4096, 2**47 - 16, 10**17), 0)
    with child.attach() as client:
        client.send(proof_request(Candidates(addresses, frozenset(addresses), dict(addresses))))
        found = next(message for message in iter(lambda: client.receive(HANGS_S), None) if isinstance(message, Garbage))
        assert (found.groups, found.reason) == ((), "")
        assert client.look().map is not None


def test_automatic_looks_find_a_cycle_and_see_that_it_is_gone(cuda_python: Python):
    child = cuda_python.fork(textwrap.dedent(BEGINNING + HOOK + ASLEEP))
    child.expect("ready")
    answer = follow(child.attach(), lambda answer: of_kind(answer, "kept_by_cycle") is not None)
    finding = of_kind(answer, "kept_by_cycle")
    assert finding is not None
    assert answer.verdict is not None
    assert "held by reference cycles alone" in answer.verdict.sentence
    child.say("")
    assert finding.bytes == int(child.expect("freed"))
    answer = follow(child.attach(), lambda answer: bool(answer.findings) and not of_kind(answer, "kept_by_cycle"))
    assert of_kind(answer, "kept_by_cycle") is None


def test_a_model_that_was_replaced_after_a_look_has_no_name_any_more(cuda_python: Python):
    source = (
        HOOK
        + """
print("ready", flush=True)
for _ in range(3):
    input()
    for _ in range(10):
        net = Net().cuda()
    print("made", flush=True)
"""
    )
    child = cuda_python.fork(textwrap.dedent(BEGINNING + source + ASLEEP))
    child.expect("ready")
    for _ in range(3):
        follow(child.attach(), lambda answer: "the parameters of net" in str(answer.verdict))
        child.say("")
        child.expect("made")
    net_bytes, others = 2048 * 2048 * 4, 19 + 30

    def is_whole(answer: Answer) -> bool:
        finding = of_kind(answer, "kept_by_cycle")
        return finding is not None and finding.bytes >= others * net_bytes

    finding = of_kind(follow(child.attach(), is_whole), "kept_by_cycle")
    assert finding is not None
    assert finding.bytes <= (others + 1) * net_bytes


def _document(python: Python, pid: int) -> dict:
    variables = {key: python.environment[key] for key in ("FAKEGPU_STATE", "LD_LIBRARY_PATH")}
    return json.loads(attach(str(pid), "--once", "--json", environment=variables)[1])
