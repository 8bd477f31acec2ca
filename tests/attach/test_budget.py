"""Automatic looks stay within their time budget; looks on request are always taken."""

from __future__ import annotations

import pytest

from gputui.model.moment import TargetMoment
from gputui.model.reading import Problem, ProblemKind
from gputui.model.snapshot import Snapshot
from gputui.model.target import Look, Statistics
from gputui.probe.budget import LIMIT_MS, RECORDS, Budget
from gputui.sources.probe.client import ProbeClient, ProbeError
from gputui.sources.probe.feed import TargetFeed
from tests.attach.children import Python, wait_until
from tests.attach.small_training import FOR_EVER, TRAINING

# blocks, how long a walk over them took in ms (None: not measured), the method that the budget then allows
WAYS = {
    "a small program": (300, None, "walk"),
    "more tensors than a walk has time for": (2_000, None, ""),
    "more blocks than there is time for": (20_000, None, None),
    "a program that turned out expensive": (300, 30 * LIMIT_MS, ""),
    "many tensors that turned out cheap": (2_000, LIMIT_MS / 2, "walk"),
}


@pytest.mark.parametrize(("blocks", "took_ms", "expected"), WAYS.values(), ids=WAYS.keys())
def test_the_budget_estimates_the_cost_of_a_look_and_learns_it(
    blocks: int, took_ms: float | None, expected: str | None
):
    budget = Budget()
    if took_ms is not None:
        budget.learn("walk", blocks, took_ms)
    method, sentence = budget.affordable("walk", blocks)
    assert method == expected
    assert ("on request only" in sentence) == (expected != "walk")


def test_a_learned_cost_scales_with_the_number_of_blocks():
    budget = Budget()
    for _ in range(2):
        budget.learn("walk", 5, 1.5)
    assert budget.affordable("walk", 400)[0] == "walk"
    assert budget.affordable("walk", 800)[0] == ""


def test_one_slow_first_look_does_not_end_automatic_looks():
    budget = Budget()
    budget.learn("walk", 100, 8 * LIMIT_MS)
    assert budget.affordable("walk", 100)[0] == "walk"
    budget.learn("walk", 100, 1.6 * LIMIT_MS)
    assert budget.affordable("walk", 100)[0] == ""


def test_an_automatic_scan_becomes_a_walk():
    assert Budget().affordable("scan", 100) == ("walk", "")


def automatic_look(client: ProbeClient) -> Look:
    client.ask_look(when="changed")
    while not isinstance(message := client.receive(60), Look):
        assert isinstance(message, Statistics)
    return message


EXPENSIVE = """
    from time import thread_time
    from gputui.probe import inventory, looks
    original, looks.SHARE_OF_TIME = inventory.take_inventory, 1.0

    def expensive(torch, how):
        end = thread_time() + 0.03
        while thread_time() < end:
            pass
        return original(torch, how)

    inventory.take_inventory = expensive
"""


def test_after_an_expensive_look_tensors_are_read_on_request_only(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + EXPENSIVE + FOR_EVER)
    device = child.expect("ready")
    with child.attach() as client:
        first, second = automatic_look(client), automatic_look(client)
        statistics = client.statistics()
        third = automatic_look(client) if device == "cuda" else None
        on_request = client.look()
    assert first.inventory is not None  # one expensive look may be due to cold caches
    assert second.inventory is not None
    assert (third and third.inventory) is None
    assert statistics.automatic == ("" if device == "cuda" else None)
    assert statistics.problems[0].text.startswith("Tensors are looked at on request only")
    assert on_request.inventory is not None
    assert on_request.problems == ()
    assert on_request.cost.probe_cpu_ms > 30


EXPENSIVE_MAP = """
    from _thread import get_ident
    from time import thread_time
    from gputui.probe import {module}
    original, main_thread = {module}.{function}, get_ident()

    def expensive(*arguments, **keywords):
        assert (get_ident() == main_thread) == {is_in_the_main_thread}
        end = thread_time() + 0.03
        while thread_time() < end:
            pass
        return original(*arguments, **keywords)

    {module}.{function} = expensive
"""
EXPENSIVE_TO_TAKE = EXPENSIVE_MAP.format(module="allocator", function="take_map", is_in_the_main_thread=True)
EXPENSIVE_TO_DESCRIBE = EXPENSIVE_MAP.format(module="blockmap", function="describe_map", is_in_the_main_thread=False)


def test_a_look_with_tensors_also_measures_the_cost_of_the_map_alone(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + EXPENSIVE_TO_TAKE + FOR_EVER)
    device = child.expect("ready")
    with child.attach() as client:
        client.look()
        client.look()
        assert client.statistics().automatic == (None if device == "cuda" else "walk")


def test_the_map_is_described_while_the_program_runs(torch_python: Python) -> None:
    generous = (
        "    from gputui.probe import budget\n    budget.LIMIT_MS = 25.0  # a busy machine makes a walk expensive\n"
    )
    child = torch_python.fork(TRAINING + generous + EXPENSIVE_TO_DESCRIBE + FOR_EVER)
    device = child.expect("ready")
    with child.attach() as client:
        client.look()
        look = client.look()
        assert client.statistics().automatic == "walk"
    assert look.problems == ()
    assert (look.map is not None) == (device == "cuda")
    assert look.cost.probe_cpu_ms > (30 if device == "cuda" else 0)


EXPECTED_EXPENSIVE = """
    from gputui.probe import budget
    for method in budget.METHODS:
        budget.EXPECTED_MS[method] = (1000.0, 0.0)
"""


def test_expensive_looks_are_announced_and_taken_on_request(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + EXPECTED_EXPENSIVE + FOR_EVER)
    child.expect("ready")
    with child.attach() as client:
        client.ask_look(when="changed")
        client.subscribe(0.1)
        seen = [client.receive(60) for _ in range(10)]
        assert {type(message) for message in seen} == {Statistics}
        assert "about 1000 ms: they are taken on request only." in seen[-1].problems[-1].text
        assert seen[-1].automatic is None
        assert client.look().inventory is not None
        assert automatic_look(client).inventory is not None


RECORDING = """
    if device == "cuda":
        torch.cuda.memory._record_memory_history(stacks="python")
    print("recording", flush=True)
"""


RECORDS_BEFORE_THE_LOOK = """
    import threading, time
    from gputui.probe import looks
    asked, gate = threading.Event(), threading.Lock()
    begin = looks.LookRunner.begin

    def begin_and_tell(runner, method, wait_s, *, is_urgent):
        begin(runner, method, wait_s, is_urgent=is_urgent)
        asked.set()

    looks.LookRunner.begin = begin_and_tell

    def record():
        asked.wait()
        if device == "cuda":
            torch.cuda.memory._record_memory_history()
        gate.release()

    gate.acquire()
    threading.Thread(target=record).start()
    gate.acquire()  # the look waits for this thread, and is taken once it returns
    if device == "cuda":
        actions = [entry["action"] for entry in torch._C._cuda_memorySnapshot(None)["device_traces"][0]]
        print("entries", actions.count("snapshot"), flush=True)
    else:
        print("entries none", flush=True)
    input()
"""


def test_an_automatic_look_leaves_no_entry_in_a_history_that_began_after_it_was_asked_for(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + RECORDS_BEFORE_THE_LOOK)
    device = child.expect("ready")
    with child.attach() as client:
        client.ask_look(when="changed")
        client.subscribe(0.1)
        assert child.expect("entries") == ("0" if device == "cuda" else "none")
        if device == "cuda":
            assert {type(client.receive(60)) for _ in range(3)} == {Statistics}


def test_an_automatic_look_is_skipped_while_the_program_records_history(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + RECORDING + FOR_EVER)
    device = child.expect("ready")
    child.expect("recording")
    with child.attach() as client:
        client.ask_look(when="changed")
        client.subscribe(0.1)
        seen = [client.receive(60) for _ in range(10)]
        on_request = client.look()
    statistics = [message for message in seen if isinstance(message, Statistics)]
    assert (len(statistics) == len(seen)) == (device == "cuda")
    assert statistics[-1].problems == ((Problem(RECORDS, ProblemKind.LOOK_ON_REQUEST),) if device == "cuda" else ())
    assert (on_request.map is not None) == (device == "cuda")


WATCHED = """
    import gc, sys, threading
    get_objects, walks, imports, main = gc.get_objects, [], [], threading.get_ident()

    def watch(event, arguments):
        if event == "import" and threading.get_ident() == main:
            imports.append(arguments[0])

    def counted(generation=None):
        if generation is None:
            walks.append("all")
        return get_objects(generation)

    for _ in range(3):
        step()
    gc.get_objects = counted
    sys.addaudithook(watch)
    print("watching", flush=True)
    import os
    while not os.path.exists("done"):
        step()
    print("seen", walks, imports, flush=True)
"""


def test_a_first_look_does_not_walk_objects_or_import_in_the_main_thread(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + WATCHED)
    child.expect("watching")
    with child.attach() as client:
        assert automatic_look(client).inventory is not None
        assert client.look().inventory is not None
    (torch_python.folder / "done").touch()
    assert child.expect("seen") == "[] []"


COMPILED = """
    import os, time
    import torch._dynamo

    def interrupted(x):
        torch._dynamo.graph_break()
        end = time.monotonic() + 0.02
        while time.monotonic() < end:
            time.sleep(0)
        return model(x).sum()

    compiled, frames = torch.compile(interrupted, backend="eager"), torch._dynamo.utils.counters["frames"]
    for _ in range(3):
        compiled(torch.randn(32, 64, device=device))
    before = frames["total"]
    print("compiled", flush=True)
    while not os.path.exists("done"):
        compiled(torch.randn(32, 64, device=device))
    print("frames", frames["total"] - before, flush=True)
"""


def test_a_look_at_a_compiled_program_is_not_compiled(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + COMPILED)
    child.expect("compiled")
    with child.attach() as client:
        looks = [client.look() for _ in range(10)]
    (torch_python.folder / "done").touch()
    assert child.expect("frames") == "0"
    assert {look.problems for look in looks} == {()}
    assert all("model.0.weight" in {storage.owner for storage in look.inventory.storages} for look in looks)


def test_tensor_names_from_a_requested_look_survive_looks_without_tensors(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + EXPENSIVE + FOR_EVER)
    device = child.expect("ready")
    moments: list[TargetMoment] = []
    feed = TargetFeed(child.attach(), Snapshot, moments.append, interval_s=0.1)
    feed.start()
    wait_until(lambda: moments and moments[-1].problems, "an expensive look")
    feed.look()
    since = len(moments)
    wait_until(lambda: len(moments) > since + 16, "counters")
    feed.stop()
    look_times = {moment.look_time for moment in moments[since + 8 :]}
    assert "on request only" in moments[-1].problems[0].text
    if device == "cuda":
        layout = moments[-1].devices[0].layout
        assert 0 < layout.names_time < moments[-1].look_time
        assert "model.0.weight" in {owner.name for owner in layout.owners.values()}
        assert len(look_times) > 1
    else:
        assert len(look_times) == 1
        assert moments[-1].look_cost.probe_cpu_ms > 30


def test_the_last_counters_arrive_before_the_process_ends(torch_python: Python) -> None:
    child = torch_python.fork(
        TRAINING
        + """
    input()
    torch.empty(1 << 50, device=device)
        """
    )
    device = child.expect("ready")
    with child.attach() as client:
        client.subscribe(3600.0)
        assert isinstance(client.receive(60), Statistics)
        child.say("go")
        last = client.receive(60)
        with pytest.raises(ProbeError, match="ended with an error: "):
            client.receive(60)
    assert isinstance(last, Statistics)
    assert [device.num_ooms for device in last.devices] == ([1, 0] if device == "cuda" else [])
    assert child.ended() == 1
    assert "gputui" not in child.errors
