"""Acts in real PyTorch programs: what they do, that nothing else comes of them, and when they are not done."""

from __future__ import annotations

import pytest

from gputui.explain.actions import outcome_of, predicted_bytes, returned_bytes
from gputui.model.moment import TargetMoment
from gputui.model.snapshot import Snapshot
from gputui.model.target import ActionName, ActionResult, Recorder
from gputui.probe.budget import RECORDS
from gputui.sources.probe.client import ProbeClient
from gputui.sources.probe.feed import TargetFeed
from tests.attach.children import Child, Python, wait_until
from tests.attach.test_looks import ASLEEP, FOR_EVER, TRAINING
from tests.fakegpu.lab import Lab

MIB = 1024**2
NO_CUDA = "The program has not initialised CUDA yet, so there is nothing for this action to do."

WAITING = """
    import os, time

    def wait_for(name):
        while not os.path.exists(name):
            time.sleep(0.001)

    print("waiting", flush=True)
"""
STILL = "    wait_for('never')\n"

FRAGMENTS = """
    import gputui.probe, gc, torch
    gc.disable()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kept = []
    for place in range(torch.cuda.device_count() or 1):
        on = f"{device}:{place}"
        blocks = [torch.empty(mib << 20, dtype=torch.uint8, device=on) for mib in (1, 2, 30, 3, 7, 44, 12, 1)]
        kept += blocks[::3 - place]
        del blocks
    print("ready", device, flush=True)
"""


def start(python: Python, source: str, **variables: str) -> tuple[Child, bool]:
    """The program once it is ready, and whether it is one on CUDA."""
    child = python.fork(source, **variables)
    return child, child.expect("ready") == "cuda"


def driver_bytes(python: Python, child: Child) -> list[int]:
    """What the driver says that a process holds on each device."""
    state = Lab(python.folder / "gpus").state
    (process,) = [each for each in state.proc if each.pid == child.pid]
    return [process.used[device] for device in range(2)]


@pytest.mark.every_torch
@pytest.mark.parametrize("settings", ["", "expandable_segments:True"], ids=["native", "expandable"])
def test_empty_cache_gives_back_what_was_predicted_to_the_byte(torch_python: Python, settings: str) -> None:
    child, has_cuda = start(torch_python, FRAGMENTS + WAITING + STILL, PYTORCH_CUDA_ALLOC_CONF=settings)
    child.expect("waiting")
    with child.attach() as client:
        before = driver_bytes(torch_python, child) if has_cuda else []
        result = client.run_action(ActionName.EMPTY_CACHE)
        if not has_cuda:
            assert (result.reason, result.devices, result.map) == (NO_CUDA, (), None)
            return
        after = driver_bytes(torch_python, child)
        look = client.look()
    predicted = [predicted_bytes(result.map, device) for device in range(2)]
    assert min(predicted) >= 12 * MIB
    assert [returned_bytes(each) for each in result.devices] == predicted
    assert [one - other for one, other in zip(before, after, strict=True)] == predicted
    assert [predicted_bytes(look.map, device) for device in range(2)] == [0, 0]
    assert [each.allocated_before_bytes for each in result.devices] == [
        each.allocated_after_bytes for each in result.devices
    ]
    assert outcome_of(result).is_as_predicted
    assert result.took_s > 0


SYNCHRONISED = """
    if device == "cuda":
        synchronize = torch.cuda.synchronize
        torch.cuda.synchronize = lambda place: (print("waited for", place, flush=True), synchronize(place))
        torch.cuda.set_device(0)
"""


def test_before_pages_of_another_device_go_that_one_is_waited_for(torch_python: Python) -> None:
    settings = "expandable_segments:True"
    child, has_cuda = start(torch_python, FRAGMENTS + SYNCHRONISED + WAITING + STILL, PYTORCH_CUDA_ALLOC_CONF=settings)
    child.expect("waiting")
    with child.attach() as client:
        assert client.run_action(ActionName.EMPTY_CACHE).reason == ("" if has_cuda else NO_CUDA)
    if has_cuda:
        assert child.expect("waited for") == "1"


CYCLE = """
    class Node:
        pass

    node = Node()
    node.own, node.tensor = node, torch.empty(20 << 20, dtype=torch.uint8, device=device)
    del node
"""


def test_a_collection_frees_a_cycle_that_holds_a_tensor(torch_python: Python) -> None:
    child, has_cuda = start(torch_python, FRAGMENTS + CYCLE + WAITING + STILL)
    child.expect("waiting")
    with child.attach() as client:
        result, again = client.run_action(ActionName.COLLECT), client.run_action(ActionName.COLLECT)
    assert (result.reason, again.reason) == ("", "")
    assert result.collected >= 2
    assert all(each.allocated_before_bytes == each.allocated_after_bytes for each in again.devices)
    freed = [each.allocated_before_bytes - each.allocated_after_bytes for each in result.devices]
    assert freed == ([20 * MIB, 0] if has_cuda else [])
    assert [each.reserved_before_bytes for each in result.devices] == [
        each.reserved_after_bytes for each in result.devices
    ]


IN_A_COLLECTION = """
    class Slow:
        def __del__(self):
            print("collecting", flush=True)
            wait_for("go on")

    slow = Slow()
    slow.own = slow
    del slow
    gc.collect()
"""


def test_no_collection_begins_inside_another(torch_python: Python) -> None:
    child, _ = start(torch_python, FRAGMENTS + WAITING + IN_A_COLLECTION + STILL)
    child.expect("collecting")
    with child.attach() as client:
        assert client.run_action(ActionName.COLLECT).reason.startswith("A garbage collection was already running")
        (torch_python.folder / "go on").touch()
        wait_until(
            lambda: client.run_action(ActionName.COLLECT).reason == "", "the end of the program's own collection"
        )


def sites(client: ProbeClient) -> set[str]:
    """The call sites of the live blocks, by the file's name."""
    blocks = [block for segment in client.look().map.segments for block in segment.blocks]
    found = [block.site for block in blocks if block.state == "active_allocated" and block.site]
    return {f"{site.file.rpartition('/')[2]}:{site.line} in {site.function}" for site in found}


MADE_LATER = """
    def made_later():
        return torch.ones(100_000, device=device)  # the line

    wait_for("make")
    kept.append(made_later())
    print("made", flush=True)
    wait_for("make more")
    kept.append(torch.ones(200_000, device=device))
    print("more", flush=True)
"""


@pytest.mark.every_torch
def test_with_memory_history_blocks_made_from_then_on_carry_a_line_of_the_program(torch_python: Python) -> None:
    child, has_cuda = start(torch_python, FRAGMENTS + WAITING + MADE_LATER + STILL)
    child.expect("waiting")
    with child.attach() as client:
        result = client.run_action(ActionName.HISTORY_ON)
        if not has_cuda:
            assert result.reason == NO_CUDA
            return
        assert result.reason == ""
        assert client.statistics().history is Recorder.PROBE
        assert client.run_action(ActionName.HISTORY_ON).reason == "Memory history is on already."
        assert sites(client) == set()
        (torch_python.folder / "make").touch()
        child.expect("made")
        line = 1 + (torch_python.folder / "train.py").read_text().split("\n").index(
            "    return torch.ones(100_000, device=device)  # the line"
        )
        expected = {f"train.py:{line} in made_later"}
        assert sites(client) == expected
        assert RECORDS not in [
            problem.text for problem in client.statistics().problems
        ]  # no look evicts an entry of anybody's
        assert client.run_action(ActionName.HISTORY_OFF).reason == ""
        assert client.statistics().history is Recorder.NOBODY
        (torch_python.folder / "make more").touch()
        child.expect("more")
        assert sites(client) == expected
        assert client.run_action(ActionName.HISTORY_OFF).reason == "Memory history is off already."


RECORDER = """
    def report():
        if device == "cuda":
            snapshot = torch.cuda.memory._snapshot()
            events = sum(each["action"] != "snapshot" for each in snapshot["device_traces"][0])
            print("events", events, torch._C._cuda_isHistoryEnabled(), flush=True)
        else:
            print("events 0 False", flush=True)

    def record(*mode):
        if device == "cuda":
            torch.cuda.memory._record_memory_history(*mode, stacks="python", max_entries=1000)

    def make():
        for _ in range(10):
            torch.ones(1000, device=device)
"""


def test_what_the_program_records_is_left_alone(torch_python: Python) -> None:
    source = FRAGMENTS + RECORDER + "    record('all')\n    make()\n" + WAITING + "    wait_for('say')\n    report()\n"
    child, has_cuda = start(torch_python, source + STILL)
    child.expect("waiting")
    with child.attach() as client:
        if has_cuda:
            assert client.statistics().history is Recorder.PROGRAM
        for name in (ActionName.HISTORY_ON, ActionName.HISTORY_OFF):
            left_alone = "The program records its memory history itself, and gputui leaves that alone."
            assert client.run_action(name).reason == (left_alone if has_cuda else NO_CUDA)
    (torch_python.folder / "say").touch()
    events, is_on = child.expect("events").split()
    assert (int(events) >= 20, is_on) == (has_cuda, str(has_cuda))


def test_a_program_that_begins_to_record_finds_all_as_if_nothing_had_been_on(torch_python: Python) -> None:
    source = FRAGMENTS + RECORDER + WAITING
    source += "    wait_for('record')\n    record('all')\n    make()\n    report()\n    wait_for('say')\n    report()\n"
    child, has_cuda = start(torch_python, source + STILL)
    child.expect("waiting")
    with child.attach() as client:
        assert client.run_action(ActionName.HISTORY_ON).reason == ("" if has_cuda else NO_CUDA)
        (torch_python.folder / "record").touch()
        first = child.expect("events")
        if has_cuda:
            assert client.statistics().history is Recorder.PROGRAM
            assert "leaves that alone" in client.run_action(ActionName.HISTORY_OFF).reason
    (torch_python.folder / "say").touch()
    assert child.expect("events") == first
    assert first.split()[1] == str(has_cuda)
    assert child.errors == ""


AT_THE_END = """
    if device == "cuda":
        own = torch._C._cuda_record_memory_history
        wait_for("attached")
        while torch._C._cuda_isHistoryEnabled():
            time.sleep(0.001)
        print("off", torch._C._cuda_record_memory_history is own, flush=True)
    else:
        print("off True", flush=True)
"""


def test_what_was_switched_on_ends_with_the_last_viewer(torch_python: Python) -> None:
    child, has_cuda = start(torch_python, FRAGMENTS + WAITING + AT_THE_END + STILL)
    child.expect("waiting")
    with child.attach() as other:
        with child.attach() as client:
            assert client.run_action(ActionName.HISTORY_ON).reason == ("" if has_cuda else NO_CUDA)
        (torch_python.folder / "attached").touch()
        if has_cuda:
            assert other.statistics().history is Recorder.PROBE
    assert child.expect("off") == "True"
    with child.attach() as client:
        assert client.statistics().history is Recorder.NOBODY
    assert child.errors == ""


def test_an_environment_that_forbids_actions_is_obeyed(torch_python: Python) -> None:
    child, _ = start(torch_python, FRAGMENTS + CYCLE + WAITING + STILL, GPUTUI_PROBE_ACTS="0")
    child.expect("waiting")
    with child.attach() as client:
        assert client.greeting.actions == ()
        for name in ActionName:
            result = client.run_action(name)
            assert result.reason == "Actions are forbidden in this program: GPUTUI_PROBE_ACTS is 0 in its environment."
            assert (result.devices, result.collected) == ((), None)


CAPTURES = {
    "torch.cuda.graph": """
    def capture():
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            print("capturing", flush=True)
            wait_for("end")

    if device == "cuda":
        capture()
    else:
        print("capturing", flush=True)
    """,
    "in another thread": """
    import threading

    def capture():
        torch.cuda.set_device(1)
        with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local"):
            print("capturing", flush=True)
            wait_for("end")

    if device == "cuda":
        thread = threading.Thread(target=capture)
        thread.start()
        while thread.is_alive():
            time.sleep(0.001)
    else:
        print("capturing", flush=True)
    """,
}


@pytest.mark.parametrize("name", CAPTURES)
def test_during_a_capture_the_cache_is_left_alone(torch_python: Python, name: str) -> None:
    child, has_cuda = start(torch_python, FRAGMENTS + WAITING + CAPTURES[name].rstrip(" ") + STILL)
    child.expect("capturing")
    with child.attach() as client:
        result = client.run_action(ActionName.EMPTY_CACHE)
        assert result.devices == ()
        assert result.reason.startswith("A CUDA graph is being captured on device " if has_cuda else NO_CUDA)
        (torch_python.folder / "end").touch()
        if has_cuda:
            wait_until(lambda: client.run_action(ActionName.EMPTY_CACHE).reason == "", "the end of the capture")


def test_a_main_thread_that_does_not_come_back_is_not_waited_for(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + ASLEEP + FOR_EVER)
    child.expect("ready")
    with child.attach() as client:
        result = client.run_action(ActionName.COLLECT, wait_s=0.1)
        assert "did not come back to Python within 0.1 s (it is at train.py:" in result.reason
        assert result.reason.endswith("nothing was done.")
        child.say("wake up")
        child.expect("awake")
        assert client.run_action(ActionName.COLLECT).reason == ""


def test_two_viewers_act_one_after_the_other(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + ASLEEP + FOR_EVER)
    child.expect("ready")
    with child.attach() as one, child.attach() as other:
        one.ask_action(ActionName.COLLECT, wait_s=3.0)
        one.mark("asked")  # told to the other only once the act before it was taken up
        assert other.receive(60).label == "asked"
        assert (
            other.run_action(ActionName.COLLECT).reason == "Another action is under way: try again when it has ended."
        )
        answers = [one.receive(60), one.receive(60)]
    assert "did not come back" in next(each for each in answers if isinstance(each, ActionResult)).reason


FAILING = """
    torch.cuda.empty_cache = lambda: 1 / 0
"""


def test_what_fails_inside_an_act_stays_inside(torch_python: Python) -> None:
    child, has_cuda = start(torch_python, FRAGMENTS + FAILING + WAITING + STILL)
    child.expect("waiting")
    with child.attach() as client:
        reason = client.run_action(ActionName.EMPTY_CACHE).reason
        assert reason == ("It failed: ZeroDivisionError: division by zero" if has_cuda else NO_CUDA)
        assert client.look().cost.pause_ms >= 0


INTERRUPTED = """
    import signal

    def out_of_time(number, frame):
        raise TimeoutError("mine")

    signal.signal(signal.SIGALRM, out_of_time)
    if device == "cuda":
        torch.cuda.empty_cache = lambda: signal.raise_signal(signal.SIGALRM)
    try:
        print("going", flush=True)
        while device == "cuda":
            time.sleep(0.001)
        raise TimeoutError("mine")
    except TimeoutError as error:
        print("caught", error, flush=True)
"""


def test_an_exception_of_a_signal_handler_arrives_in_the_program(torch_python: Python) -> None:
    child, has_cuda = start(torch_python, FRAGMENTS + WAITING + INTERRUPTED + STILL)
    child.expect("going")
    with child.attach() as client:
        reason = client.run_action(ActionName.EMPTY_CACHE).reason
        assert reason.startswith("A signal handler of the program interrupted the action" if has_cuda else NO_CUDA)
        assert child.expect("caught") == "mine"
        assert client.run_action(ActionName.COLLECT).reason == ""


def test_moments_tell_of_an_act_under_way_of_what_came_of_it_and_of_the_memory_after_it(torch_python: Python) -> None:
    child, has_cuda = start(torch_python, FRAGMENTS + WAITING + STILL)
    child.expect("waiting")
    moments: list[TargetMoment] = []
    feed = TargetFeed(child.attach(), Snapshot, moments.append, interval_s=0.1)
    feed.start()
    feed.run_action(ActionName.EMPTY_CACHE)
    wait_until(lambda: moments and moments[-1].outcome, "the outcome")
    assert ActionName.EMPTY_CACHE in [each.pending_action for each in moments]
    assert moments[-1].pending_action is None
    assert moments[-1].outcome.is_as_predicted == has_cuda
    if has_cuda:
        done = moments[-1].outcome.time
        wait_until(lambda: moments[-1].look_time > done, "a look after it")
        layouts = [device.layout for device in moments[-1].devices]
        assert [each.release.releasable_bytes for each in layouts] == [0, 0]
        feed.run_action(ActionName.HISTORY_ON)
        wait_until(lambda: moments[-1].history is Recorder.PROBE, "the history")
    feed.stop()


STOPPED = """
    wait_for("stop")
    gputui.probe.stop()
    print("enabled", device == "cuda" and torch._C._cuda_isHistoryEnabled(), flush=True)
"""


def test_what_was_switched_on_ends_with_the_probe(torch_python: Python) -> None:
    child, has_cuda = start(torch_python, FRAGMENTS + WAITING + STOPPED + STILL)
    child.expect("waiting")
    with child.attach() as client:
        assert client.run_action(ActionName.HISTORY_ON).reason == ("" if has_cuda else NO_CUDA)
        (torch_python.folder / "stop").touch()
        assert child.expect("enabled") == "False"
    assert child.errors == ""


LEFT_OVER = """
    if device == "cuda":
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            outlived = torch.empty(30 << 20, dtype=torch.uint8, device=device)
        del pool
"""


def test_an_expandable_pool_that_nobody_uses_is_not_touched(torch_python: Python) -> None:
    source = FRAGMENTS + LEFT_OVER + WAITING + STILL
    child, has_cuda = start(torch_python, source, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    child.expect("waiting")
    with child.attach() as client:
        result = client.run_action(ActionName.EMPTY_CACHE)
        assert result.reason.startswith("A private pool that nobody uses any more" if has_cuda else NO_CUDA)
        assert result.devices == ()


def test_of_an_allocator_without_a_map_nothing_is_predicted(torch_python: Python) -> None:
    source = FRAGMENTS + WAITING + STILL
    settings = "backend:cudaMallocAsync"  # which PyTorch reads at its import
    child = torch_python.start(source, options=("-W", "ignore"), PYTORCH_CUDA_ALLOC_CONF=settings)
    has_cuda = child.expect("ready") == "cuda"
    child.expect("waiting")
    with child.attach() as client:
        assert client.statistics().history is Recorder.NOBODY
        result = client.run_action(ActionName.EMPTY_CACHE)
        assert (result.reason, result.map) == ("" if has_cuda else NO_CUDA, None)
        begun = client.run_action(ActionName.HISTORY_ON)
        assert begun.reason.startswith("Only PyTorch's own allocator records" if has_cuda else NO_CUDA)
