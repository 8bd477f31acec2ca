"""Automatic looks stay within their time budget; looks on request are always taken."""

from __future__ import annotations

import sys

import pytest

from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.target import Look, Statistics
from gputui.model.machine.snapshot import Snapshot
from gputui.model.reading import Problem, ProblemKind
from gputui.probe.looks.stops import (
    STOPS_AT_MOST,
    STOPS_TO_READ_ON,
    STOPS_WHILE_MEMORY_CHANGES,
    LookUnderWay,
)
from gputui.probe.pace.budget import NO_MAP, NO_SCAN, RECORDS, Budget, Plan, on_request
from gputui.probe.viewers.requests import read_request
from gputui.protocol import pauses
from gputui.sources.probe.client import ProbeClient, ProbeError
from gputui.sources.probe.feed import LOOKS_ARE_OFF, TargetFeed
from tests.attach.children import DRIVEN, LIMIT_S, Python, wait_until, words_of_gputui
from tests.attach.small_training import ASLEEP, FOR_EVER, TRAINING

LOOKS = 10
"""How often to look at most until a look on a busy machine had time for the tensors."""

LONGEST_MS = pauses.LONGEST_S * 1000

# blocks, what a map of them took (None: not measured), the longest stop, and where the map is taken
MAPS = {
    "a small program": (300, None, 25.0, "with the tensors"),
    "a map that takes a quarter of a stop": (20_000, None, 25.0, "apart"),
    "a map that takes most of a stop": (60_000, None, 25.0, "apart"),
    "a map that takes more than a stop": (100_000, None, 25.0, "nowhere"),
    "the same on request": (100_000, None, LONGEST_MS, "with the tensors"),
    "a million blocks on request": (1_000_000, None, LONGEST_MS, "nowhere"),
    "a map that turned out expensive": (1_000, 300.0, 25.0, "nowhere"),
    "a map that turned out cheap": (100_000, 3.0, 25.0, "with the tensors"),
    "a gentle viewer": (10_000, None, 5.0, "apart"),
}


@pytest.mark.parametrize(("blocks", "took_ms", "pause_ms", "where"), MAPS.values(), ids=MAPS.keys())
def test_the_budget_plans_the_map_by_its_blocks(blocks: int, took_ms: float | None, pause_ms: float, where: str):
    budget = Budget()
    for _ in range(2 if took_ms is not None else 0):
        budget.learn_map(blocks, took_ms or 0.0, pause_ms, by_clock_ms=0.0)
    plan = budget.plan("walk", blocks, pause_ms, is_urgent=pause_ms == LONGEST_MS)
    assert (plan.has_map, plan.is_map_apart) == (where != "nowhere", where == "apart")
    assert [f"{blocks:,} blocks" in str(problem) for problem in plan.problems] == [True] * (where == "nowhere")
    assert plan.method == "walk"


def test_a_map_too_large_for_an_automatic_look_is_taken_on_request():
    assert Budget().plan("walk", 100_000, 25.0, is_urgent=False).problems == (
        on_request(NO_MAP.format(100_000, 30.3, "automatic ")),
    )


def test_one_slow_first_map_does_not_end_automatic_maps():
    budget = Budget()
    budget.learn_map(1_000, 100.0, 25.0, by_clock_ms=100.0)
    assert budget.plan("walk", 1_000, 25.0, is_urgent=False).has_map
    budget.learn_map(1_000, 100.0, 25.0, by_clock_ms=100.0)
    assert not budget.plan("walk", 1_000, 25.0, is_urgent=False).has_map


def test_a_map_that_one_call_may_take_is_taken_in_a_stop_of_its_own():
    plan = Budget().plan("walk", 100_000, 25.0, is_urgent=False, uncut_ms=100.0)
    assert (plan.has_map, plan.is_map_apart, plan.problems) == (True, True, ())


def test_one_slow_map_among_others_does_not_end_automatic_maps():
    budget = Budget()
    for took_ms in (0.6, 0.6, 100.0):
        budget.learn_map(1_000, took_ms, 25.0, by_clock_ms=took_ms)
    assert budget.plan("walk", 1_000, 25.0, is_urgent=False).has_map
    budget.learn_map(1_000, 100.0, 25.0, by_clock_ms=100.0)
    assert not budget.plan("walk", 1_000, 25.0, is_urgent=False).has_map


def test_a_map_that_waits_for_a_processor_leaves_the_tensors_a_stop_of_their_own():
    budget = Budget()
    for by_clock_ms, is_apart in ((20.0, True), (5.0, False)):
        budget.learn_map(1_000, 0.6, 25.0, by_clock_ms=by_clock_ms)
        assert budget.plan("walk", 1_000, 25.0, is_urgent=False).is_map_apart is is_apart
        assert not budget.plan("", 1_000, 25.0, is_urgent=False).is_map_apart


def test_an_automatic_scan_becomes_a_walk():
    assert Budget().plan("scan", 100, 25.0, is_urgent=False).method == "walk"


def test_a_scan_of_too_many_objects_becomes_a_walk_that_says_why(monkeypatch: pytest.MonkeyPatch):
    plans = {}
    for blocks in (500_000, 2_000_000, 50_000_000):
        monkeypatch.setattr(sys, "getallocatedblocks", lambda blocks=blocks: blocks)
        plans[blocks] = Budget().plan("scan", 100, LONGEST_MS, is_urgent=True)
    assert list(plans.values()) == [
        Plan("scan", may_walk=True),
        Plan("scan", may_walk=False),
        Plan("walk", may_walk=False, problems=(NO_SCAN.format(1000),)),
    ]


@pytest.mark.parametrize(
    ("fields", "pause_ms"),
    [
        ({"when": "changed"}, 25.0),
        ({"when": "changed", "pause_ms": 5}, 5.0),
        ({"when": "changed", "pause_ms": 0}, 1.0),
        ({"when": "changed", "pause_ms": 1e6}, 100.0),
        ({"when": "now"}, 100.0),
        ({"when": "now", "pause_ms": 25}, 25.0),
        ({}, 100.0),
    ],
)
def test_a_viewer_can_ask_for_stops_of_up_to_100_ms(fields: dict[str, object], pause_ms: float):
    assert read_request({"type": "look", **fields})[1].pause_ms == pause_ms


@pytest.mark.parametrize(
    ("when", "stamps", "reads_on", "stops"),
    [
        ("changed", "aa", False, STOPS_AT_MOST),
        ("changed", "ab", False, STOPS_WHILE_MEMORY_CHANGES),
        ("changed", "ab", True, STOPS_AT_MOST),
        ("now", "ab", False, STOPS_AT_MOST),
    ],
)
def test_a_look_makes_so_many_stops_where_one_is_too_short(when: str, stamps: str, stops: int, *, reads_on: bool):
    taking = LookUnderWay(read_request({"type": "look", "when": when})[1])
    unfinished = {"inventory": {"is_complete": False}}
    taking.stamps += stamps
    taking.reads_on = reads_on
    for _ in range(stops):
        taking.add({"pause_ms": 1.0, "probe_cpu_ms": 1.0})
    taking.stops -= 1
    assert taking.goes_on_after(unfinished)
    taking.stops += 1
    assert not taking.goes_on_after(unfinished)


def test_a_look_on_request_that_reads_on_makes_more_stops_where_they_are_short():
    at_most = {}
    for pause_ms in (5, 25, 50, 100):
        taking = LookUnderWay(read_request({"type": "look", "when": "now", "pause_ms": pause_ms})[1])
        taking.reads_on = True
        while taking.goes_on_after({"inventory": {"is_complete": False}}):
            taking.add({"pause_ms": 1.0, "probe_cpu_ms": 1.0})
        at_most[pause_ms] = taking.stops
    assert at_most == {5: STOPS_TO_READ_ON, 25: STOPS_TO_READ_ON, 50: STOPS_TO_READ_ON, 100: 10}


def automatic(pause_ms: float = 25.0, **kinds: bool) -> LookUnderWay:
    return LookUnderWay(read_request({"type": "look", "when": "changed", "pause_ms": pause_ms})[1], **kinds)


@pytest.mark.parametrize("kind", ["is_at_top", "is_passing"])
@pytest.mark.parametrize(("pause_ms", "uncut_ms"), [(25, 100), (5, 5), (25, 25)])
def test_a_look_at_what_does_not_last_has_one_stop_as_long_as_a_call(kind: str, pause_ms: float, uncut_ms: float):
    taking = automatic(pause_ms, **{kind: True})
    assert (taking.stop_ms(uncut_ms), automatic(pause_ms).stop_ms(uncut_ms)) == (uncut_ms, pause_ms)
    assert not taking.goes_on_after({"inventory": {"is_complete": False}})
    assert taking.has_map
    taking.in_main_thread = False
    assert taking.stop_ms(uncut_ms) == pause_ms


def test_after_stops_between_which_memory_has_changed_a_look_has_one_stop_where_that_names_more():
    for stamps, is_named_well, is_passing in (
        ("a", False, False),
        ("aa", False, False),
        ("ab", False, True),
        ("ab", True, False),
    ):
        taking = automatic()
        taking.stamps += stamps
        assert taking.is_next_passing(is_named_well=is_named_well) == is_passing
        taking.in_main_thread = False  # there a main thread that goes on would free what a long stop keeps alive
        assert not taking.is_next_passing(is_named_well=is_named_well)
    for cpu_ms, is_passing in ((24.0, False), (60.0, True)):
        taking = automatic(is_passing=True)
        taking.add({"pause_ms": cpu_ms, "probe_cpu_ms": cpu_ms})
        assert taking.is_next_passing(is_named_well=True) == is_passing


def automatic_look(client: ProbeClient, pause_s: float | None = None) -> Look:
    client.ask_look(when="changed", pause_s=pause_s)
    while not isinstance(message := client.receive(LIMIT_S), Look):
        assert isinstance(message, Statistics)
    return message


IN_PARTS = """
    from gputui.probe.inventory import inventory
    original, parts, steps = inventory.take_inventory, [], 0

    def incomplete(*arguments):
        parts.append(steps)
        return original(*arguments) | {"is_complete": len(parts) % {parts} == 0}

    inventory.take_inventory = incomplete
    import os
    while not os.path.exists("done"):
        step()
        steps += 1
    print("parts", len(parts), len(set(parts)), flush=True)
    input()
"""


@pytest.mark.parametrize(("parts", "stops"), [(1, 1), (4, 4), (1000, STOPS_AT_MOST)])
def test_a_look_on_request_goes_on_until_all_is_read(torch_python: Python, parts: int, stops: int) -> None:
    child = torch_python.fork(TRAINING + IN_PARTS.replace("{parts}", str(parts)), **DRIVEN)
    device = child.expect("ready")
    with child.attach() as client:
        look = client.look()
        (torch_python.folder / "done").touch()
        assert child.expect("parts").split()[0] == str(stops)
    assert look.inventory is not None
    assert look.inventory.is_complete == (parts == stops)
    assert "model.0.weight" in {storage.owner for storage in look.inventory.storages}
    assert (look.map is not None) == (device == "cuda")
    assert look.cost.pause_ms > 0
    assert look.problems == ()


def test_an_automatic_look_has_two_parts_and_the_next_goes_on(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + IN_PARTS.replace("{parts}", "3"), **DRIVEN)
    child.expect("ready")
    with child.attach() as client:
        looks = [automatic_look(client) for _ in range(2)]
        (torch_python.folder / "done").touch()
        assert child.expect("parts").split() == ["3", "3"]
    assert [look.inventory.is_complete for look in looks] == [False, True]


def test_an_incomplete_look_is_continued_although_nothing_has_changed(torch_python: Python) -> None:
    in_parts = IN_PARTS.replace("{parts}", str(STOPS_AT_MOST + 1)).replace("step()\n", "pass\n")
    child = torch_python.fork(TRAINING + in_parts, **DRIVEN)
    child.expect("ready")
    with child.attach() as client:
        assert [automatic_look(client).inventory.is_complete for _ in range(2)] == [False, True]


EXPENSIVE_MAP = """
    from _thread import get_ident
    from time import thread_time
    from gputui.probe.allocator import {module}
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


def test_an_expensive_map_is_left_out_only_where_stops_must_be_short_and_the_tensors_are_not(
    torch_python: Python,
) -> None:
    child = torch_python.fork(TRAINING + EXPENSIVE_TO_TAKE + FOR_EVER, **DRIVEN)
    device = child.expect("ready")
    with child.attach() as client:
        first, second = client.look(), client.look()
        usual = automatic_look(client)
        automatic = automatic_look(client, pause_s=0.02)
        assert client.statistics().automatic == "walk"
    assert (usual.map is not None) == (device == "cuda")
    assert (first.map is not None) == (second.map is not None) == (device == "cuda")
    assert automatic.map is None
    assert "model.0.weight" in {storage.owner for storage in automatic.inventory.storages}
    kinds = [problem.kind for problem in automatic.problems if "blocks, and PyTorch lists them" in problem.text]
    assert kinds == ([ProblemKind.LOOK_ON_REQUEST] if device == "cuda" else [])


def test_a_map_that_takes_most_of_a_stop_has_one_of_its_own(torch_python: Python) -> None:
    apart = (
        "    from gputui.probe.pace import budget\n    budget.EXPECTED_MAP_MS = (99.0, 0.0)\n"
        "    budget.Budget.learn_map = lambda *_, **__: None\n"
    )
    child = torch_python.fork(TRAINING + apart + ASLEEP, **DRIVEN)
    device = child.expect("ready")
    with child.attach() as client:
        look = client.look()
    assert (look.map is not None) == (device == "cuda")
    assert look.inventory.is_of_one_moment
    assert "model.0.weight" in {storage.owner for storage in look.inventory.storages}


def test_the_map_is_described_while_the_program_runs(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + EXPENSIVE_TO_DESCRIBE + FOR_EVER)
    device = child.expect("ready")
    with child.attach() as client:
        client.look()
        look = client.look()
    assert look.problems == ()
    assert (look.map is not None) == (device == "cuda")
    assert look.cost.probe_cpu_ms > (30 if device == "cuda" else 0)


RECORDING = """
    if device == "cuda":
        torch.cuda.memory._record_memory_history(stacks="python")
    print("recording", flush=True)
"""


RECORDS_BEFORE_THE_LOOK = """
    import threading, time
    from gputui.probe.looks import looks
    asked, gate = threading.Event(), threading.Lock()
    begin = looks.LookRunner.begin

    def begin_and_tell(runner, request, **keywords):
        begin(runner, request, **keywords)
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
            assert {type(client.receive(LIMIT_S)) for _ in range(3)} == {Statistics}


def test_an_automatic_look_is_skipped_while_the_program_records_history(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + RECORDING + FOR_EVER)
    device = child.expect("ready")
    child.expect("recording")
    with child.attach() as client:
        client.ask_look(when="changed")
        client.subscribe(0.1)
        seen = [client.receive(LIMIT_S) for _ in range(10)]
        on_request = client.look()
    statistics = [message for message in seen if isinstance(message, Statistics)]
    assert (len(statistics) == len(seen)) == (device == "cuda")
    assert statistics[-1].problems == ((Problem(RECORDS, ProblemKind.LOOK_ON_REQUEST),) if device == "cuda" else ())
    assert (on_request.map is not None) == (device == "cuda")


WATCHED = """
    import gc, sys, threading
    get_objects, walks, imports, main = gc.get_objects, [], [], threading.get_ident()

    def watch(event, arguments):
        if event in ("import", "exec") and threading.get_ident() == main:  # a module of the probe's is executed
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
    child = torch_python.fork(TRAINING + WATCHED, **DRIVEN)
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
    child = torch_python.fork(TRAINING + COMPILED, **DRIVEN)
    child.expect("compiled")
    with child.attach() as client:
        looks = [client.look() for _ in range(10)]
    (torch_python.folder / "done").touch()
    assert child.expect("frames") == "0"
    assert {look.problems for look in looks} == {()}
    assert all("model.0.weight" in {storage.owner for storage in look.inventory.storages} for look in looks)


def test_the_map_of_a_requested_look_survives_looks_without_one(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + EXPENSIVE_TO_TAKE + FOR_EVER, **DRIVEN)
    device = child.expect("ready")
    moments: list[TargetMoment] = []
    feed = TargetFeed(child.attach(), Snapshot, moments.append, interval_s=0.1, look_pause_s=None)
    feed.start()
    wait_until(lambda: moments, "counters")
    assert moments[-1].look_cost is None  # no automatic look, not even the first
    assert moments[-1].problems == (LOOKS_ARE_OFF,)
    feed.stop()
    feed = TargetFeed(child.attach(), Snapshot, moments.append, interval_s=0.1)
    feed.start()

    def wait_for_looks(count: int) -> None:
        seen = {moment.look_time for moment in moments}
        wait_until(lambda: len({moment.look_time for moment in moments}) >= len(seen) + count, "looks")

    def is_named() -> bool:
        layout = moments[-1].devices[0].layout if moments and device == "cuda" else None
        return layout is not None and "model.0.weight" in {owner.name for owner in layout.owners.values()}

    for _ in range(LOOKS):  # on a busy machine, the first has no time for all tensors
        feed.look()
        wait_for_looks(1)
        if is_named():
            break
    wait_for_looks(3)
    feed.stop()
    assert is_named() == (device == "cuda")


@pytest.mark.place
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
        assert isinstance(client.receive(LIMIT_S), Statistics)
        child.say("go")
        last = client.receive(LIMIT_S)
        with pytest.raises(ProbeError, match="ended with an error: "):
            client.receive(LIMIT_S)
    assert isinstance(last, Statistics)
    assert [device.num_ooms for device in last.devices] == ([1, 0] if device == "cuda" else [])
    assert child.ended() == 1
    assert words_of_gputui(child.errors) == []
