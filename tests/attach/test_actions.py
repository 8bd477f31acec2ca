"""Actions in real PyTorch programs: their effects, the absence of side effects, and when they are refused."""

from __future__ import annotations

import pytest

from gputui.explain.memory.release import predict_device
from gputui.explain.moment.actions import outcome_of, returned_bytes
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.target import ActionName, ActionResult, Recorder
from gputui.model.machine.snapshot import Snapshot
from gputui.probe.pace.budget import RECORDS
from gputui.sources.probe.client import ProbeClient
from gputui.sources.probe.feed import TargetFeed
from tests.attach.children import LIMIT_S, Child, Python, wait_until
from tests.attach.small_training import ASLEEP, FOR_EVER, TRAINING
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
    """Start a program, wait until it is ready, and return it with whether it uses CUDA."""
    child = python.fork(source, **variables)
    return child, child.expect("ready") == "cuda"


def driver_bytes(python: Python, child: Child) -> list[int]:
    """The bytes that the process uses on each device, as the driver reports them."""
    state = Lab(python.folder / "gpus").state
    (process,) = [process for process in state.proc if process.pid == child.pid]
    return [process.used[device] for device in range(2)]


@pytest.mark.every_torch
@pytest.mark.parametrize("settings", ["", "expandable_segments:True"], ids=["native", "expandable"])
def test_empty_cache_releases_the_predicted_bytes_exactly(torch_python: Python, settings: str) -> None:
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
    predicted = [predict_device(result.map, device).releasable_bytes for device in range(2)]
    assert min(predicted) >= 12 * MIB
    assert [returned_bytes(device) for device in result.devices] == predicted
    assert [one - other for one, other in zip(before, after, strict=True)] == predicted
    assert [predict_device(look.map, device).releasable_bytes for device in range(2)] == [0, 0]
    assert [device.allocated_before_bytes for device in result.devices] == [
        device.allocated_after_bytes for device in result.devices
    ]
    assert outcome_of(result).is_as_predicted
    assert result.took_s > 0


SYNCHRONISED = """
    if device == "cuda":
        synchronize = torch.cuda.synchronize
        torch.cuda.synchronize = lambda place: (print("waited for", place, flush=True), synchronize(place))
        torch.cuda.set_device(0)
"""


def test_another_device_is_synchronised_before_its_pages_are_released(torch_python: Python) -> None:
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
    assert all(device.allocated_before_bytes == device.allocated_after_bytes for device in again.devices)
    freed = [device.allocated_before_bytes - device.allocated_after_bytes for device in result.devices]
    assert freed == ([20 * MIB, 0] if has_cuda else [])
    assert [device.reserved_before_bytes for device in result.devices] == [
        device.reserved_after_bytes for device in result.devices
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
    """The call sites of the live blocks, as "file:line in function" with the file's base name."""
    block_map = client.look().map
    assert block_map is not None
    blocks = [block for segment in block_map.segments for block in segment.blocks]
    call_sites = [block.site for block in blocks if block.state == "active_allocated" and block.site]
    return {f"{site.file.rpartition('/')[2]}:{site.line} in {site.function}" for site in call_sites}


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
def test_new_blocks_have_a_call_site_once_memory_history_is_on(torch_python: Python) -> None:
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
        ]  # the probe's own history may lose entries
        assert client.run_action(ActionName.HISTORY_OFF).reason == ""
        assert client.statistics().history is Recorder.NOBODY
        (torch_python.folder / "make more").touch()
        child.expect("more")
        assert sites(client) == expected
        assert client.run_action(ActionName.HISTORY_OFF).reason == "Memory history is off already."


ALL_STACKS = """
    if device == "cuda":
        torch.cuda.memory._record_memory_history(stacks="all")
"""


@pytest.mark.every_torch
def test_blocks_have_pythons_line_where_the_program_records_stacks_of_cpp_too(torch_python: Python) -> None:
    child, has_cuda = start(torch_python, FRAGMENTS + WAITING + ALL_STACKS + MADE_LATER + STILL)
    (torch_python.folder / "make").touch()
    child.expect("made")
    if not has_cuda:
        with child.attach() as client:
            assert client.look().map is None
        return
    line = 1 + (torch_python.folder / "train.py").read_text().split("\n").index(
        "    return torch.ones(100_000, device=device)  # the line"
    )
    with child.attach() as client:
        assert sites(client) == {f"train.py:{line} in made_later"}


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


def test_actions_leave_the_programs_own_memory_history_alone(torch_python: Python) -> None:
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


def test_a_program_can_start_its_own_history_while_the_probe_records(torch_python: Python) -> None:
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


def test_memory_history_is_switched_off_when_the_last_viewer_leaves(torch_python: Python) -> None:
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


def test_actions_are_refused_if_the_environment_forbids_them(torch_python: Python) -> None:
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
def test_empty_cache_is_refused_during_a_graph_capture(torch_python: Python, name: str) -> None:
    child, has_cuda = start(torch_python, FRAGMENTS + WAITING + CAPTURES[name].rstrip(" ") + STILL)
    child.expect("capturing")
    with child.attach() as client:
        result = client.run_action(ActionName.EMPTY_CACHE)
        assert result.devices == ()
        assert result.reason.startswith("A CUDA graph is being captured on device " if has_cuda else NO_CUDA)
        (torch_python.folder / "end").touch()
        if has_cuda:
            wait_until(lambda: client.run_action(ActionName.EMPTY_CACHE).reason == "", "the end of the capture")


def test_an_action_gives_up_if_the_main_thread_stays_busy(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + ASLEEP + FOR_EVER)
    child.expect("ready")
    with child.attach() as client:
        result = client.run_action(ActionName.COLLECT, wait_s=0.1)
        assert "did not come back to Python within 0.1 s (it is at train.py:" in result.reason
        assert result.reason.endswith("nothing was done.")
        child.say("wake up")
        child.expect("awake")
        assert client.run_action(ActionName.COLLECT).reason == ""


def test_a_second_viewers_action_is_refused_while_one_is_under_way(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + ASLEEP + FOR_EVER)
    child.expect("ready")
    with child.attach() as one, child.attach() as other:
        one.ask_action(ActionName.COLLECT, wait_s=3.0)
        one.mark("asked")  # reaches the other viewer only after the probe has taken up the action
        assert other.receive(LIMIT_S).label == "asked"
        assert (
            other.run_action(ActionName.COLLECT).reason == "Another action is under way: try again when it has ended."
        )
        answers = [one.receive(LIMIT_S), one.receive(LIMIT_S)]
    assert "did not come back" in next(answer for answer in answers if isinstance(answer, ActionResult)).reason


FAILING = """
    torch.cuda.empty_cache = lambda: 1 / 0
"""


def test_an_exception_inside_an_action_does_not_reach_the_program(torch_python: Python) -> None:
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


def test_an_exception_from_a_signal_handler_reaches_the_program(torch_python: Python) -> None:
    child, has_cuda = start(torch_python, FRAGMENTS + WAITING + INTERRUPTED + STILL)
    child.expect("going")
    with child.attach() as client:
        reason = client.run_action(ActionName.EMPTY_CACHE).reason
        assert reason.startswith("A signal handler of the program interrupted the action" if has_cuda else NO_CUDA)
        assert child.expect("caught") == "mine"
        assert client.run_action(ActionName.COLLECT).reason == ""


def test_moments_show_a_pending_action_its_outcome_and_the_memory_after_it(torch_python: Python) -> None:
    child, has_cuda = start(torch_python, FRAGMENTS + WAITING + STILL)
    child.expect("waiting")
    moments: list[TargetMoment] = []
    feed = TargetFeed(child.attach(), Snapshot, moments.append, interval_s=0.1)
    feed.start()
    feed.run_action(ActionName.EMPTY_CACHE)
    wait_until(lambda: moments and moments[-1].outcome, "the outcome")
    assert ActionName.EMPTY_CACHE in [moment.pending_action for moment in moments]
    assert moments[-1].pending_action is None
    assert moments[-1].outcome.is_as_predicted == has_cuda
    if has_cuda:
        done = moments[-1].outcome.time
        wait_until(lambda: moments[-1].look_time > done, "a look after it")
        layouts = [device.layout for device in moments[-1].devices]
        assert [layout.release.releasable_bytes for layout in layouts] == [0, 0]
        feed.run_action(ActionName.HISTORY_ON)
        wait_until(lambda: moments[-1].history is Recorder.PROBE, "the history")
    feed.stop()


STOPPED = """
    wait_for("stop")
    gputui.probe.stop()
    print("enabled", device == "cuda" and torch._C._cuda_isHistoryEnabled(), flush=True)
"""


def test_memory_history_is_switched_off_when_the_probe_stops(torch_python: Python) -> None:
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


def test_empty_cache_is_refused_if_an_expandable_pool_is_unused(torch_python: Python) -> None:
    source = FRAGMENTS + LEFT_OVER + WAITING + STILL
    child, has_cuda = start(torch_python, source, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    child.expect("waiting")
    with child.attach() as client:
        result = client.run_action(ActionName.EMPTY_CACHE)
        assert result.reason.startswith("A private pool that nobody uses any more" if has_cuda else NO_CUDA)
        assert result.devices == ()


def test_nothing_is_predicted_for_an_allocator_without_a_map(torch_python: Python) -> None:
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
