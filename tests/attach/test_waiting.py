"""Looks at programs whose main thread waits: they are taken in the probe's own thread."""

from __future__ import annotations

import pytest

from gputui.model.attached.target import Look, Statistics
from gputui.model.attached.tensors import Category
from gputui.model.machine.snapshot import Snapshot
from gputui.probe.inventory.run import IN_BACKWARD
from gputui.probe.looks.torch_reader import BACKWARD_ENDANGERED
from gputui.sources.probe import one_moment as once
from gputui.sources.probe.client import ProbeClient
from gputui.sources.probe.one_moment import one_moment
from tests.attach.children import DRIVEN, LIMIT_S, Python
from tests.attach.small_training import ASLEEP, FOR_EVER, TRAINING
from tests.scale import scaled

LOOKS = 10
"""How often to look at most until a look on a busy machine had time for the tensors."""

PATIENT_S = 60.0
"""The longest that a viewer lets a probe wait for the main thread."""

WAITING = {
    "time.sleep": "import time; time.sleep(600)",
    "queue.get": "import queue; queue.Queue().get()",
    "a lock": "import threading; threading.Event().wait()",
    "join": "import threading; thread = threading.Thread(target=input); thread.start(); thread.join()",
    "input": "input()",
    "asyncio": "import asyncio; asyncio.run(asyncio.sleep(600))",
    "serve_forever": "import http.server as h; h.HTTPServer(('', 0), h.BaseHTTPRequestHandler).serve_forever()",
    "subprocess.wait": "import subprocess; subprocess.run(['sleep', '600'])",
    "selectors": "import selectors as s; p = s.DefaultSelector(); p.register(0, s.EVENT_READ); p.select()",
    "poll": "import select; p = select.poll(); p.register(0, select.POLLIN); p.poll()",
    "multiprocessing": "import multiprocessing as m; m.get_context('fork').Queue().get()",
}


def next_look(client: ProbeClient) -> Look:
    """The look that was asked for; only statistics may come before it."""
    while not isinstance(message := client.receive(LIMIT_S), Look):
        assert isinstance(message, Statistics), "no look arrived"
    return message


def automatic_look(client: ProbeClient, *, stops: int = 30) -> Look:
    """The first automatic look that is complete, or the last of `stops`: a busy machine may need more than one."""
    for _ in range(stops):
        client.ask_look(when="changed")
        look = next_look(client)
        if look.inventory is None or look.inventory.is_complete:
            break
    return look


def names(look: Look) -> set[str]:
    return {storage.owner for storage in look.inventory.storages}


@pytest.mark.parametrize("waits", WAITING.values(), ids=WAITING.keys())
def test_tensors_of_a_program_that_waits_are_named(torch_python: Python, waits: str) -> None:
    child = torch_python.fork(f"{TRAINING}\n    {waits}\n", **DRIVEN)
    device = child.expect("ready")
    with child.attach() as client:
        looks = [automatic_look(client), client.look(), client.look("scan")]
    for look in looks:
        assert {"model.0.weight", "model.0.weight.grad"} <= names(look)
        assert look.inventory.is_of_one_moment
        assert look.problems == ()
        assert (look.map is not None) == (device == "cuda")


def test_variables_of_the_function_that_waits_are_named(torch_python: Python) -> None:
    child = torch_python.fork(
        TRAINING
        + """
    def wait():
        kept = torch.ones(1000, device=device)
        input()

    wait()
    """,
        **DRIVEN,
    )
    child.expect("ready")
    with child.attach() as client:
        assert any(name.startswith("kept (train.py:") for name in names(automatic_look(client)))


COROUTINES = """
    import asyncio, contextlib

    @contextlib.asynccontextmanager
    async def lifespan():
        served = torch.nn.Linear(32, 32).to(device)
        yield

    def prefetched():
        following = torch.ones(1000, device=device)
        while True:
            yield following

    async def streamed():
        sent = torch.ones(2000, device=device)
        await asyncio.sleep(600)
        yield sent

    async def stream():
        async for _ in streamed():
            pass

    async def serve():
        kept = torch.ones(3000, device=device)
        batches = prefetched()
        next(batches)
        task = asyncio.create_task(stream())
        async with lifespan():
            await asyncio.sleep(0)
            print("serving", flush=True)
            await asyncio.sleep(600)

    asyncio.run(serve())
"""


def test_variables_of_coroutines_and_generators_that_wait_are_named(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + COROUTINES, **DRIVEN)
    child.expect("serving")
    with child.attach() as client:
        found = names(automatic_look(client))
    where = {name.partition(" (")[0]: name.rpartition(" in ")[2].rstrip(")") for name in found if " (" in name}
    assert "served.weight" in found
    assert where == {"following": "prefetched", "sent": "streamed", "kept": "serve"}


POST_MORTEM = """
    import pdb

    def fail():
        lost = torch.ones(1000, device=device)
        raise ValueError

    try:
        fail()
    except ValueError as error:
        traceback = error.__traceback__
    pdb.post_mortem(traceback)
"""


def test_variables_of_the_frames_that_a_debugger_shows_have_their_own_names(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + POST_MORTEM, **DRIVEN)
    child.expect("-> raise ValueError")
    with child.attach() as client:
        found = names(automatic_look(client))
    assert [name for name in found if name.startswith("lost (train.py:") and name.endswith(" in fail)")]


CACHED = """
    import functools

    @functools.lru_cache(maxsize=None)
    def load(name):
        return torch.nn.Linear(32, 32).to(device)

    @functools.lru_cache
    def mask(size, on):
        return torch.ones(size, device=on)

    load("small")
    mask(1000, torch.device(device))
    print("loaded", flush=True)
    input()
"""


def test_results_that_functions_cache_are_named(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + CACHED, **DRIVEN)
    child.expect("loaded")
    with child.attach() as client:
        found = names(automatic_look(client))
    assert {"load['small'].weight", "mask[0]"} <= found


def test_one_look_does_not_watch_a_program_that_holds_nothing(python: Python, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, subscribe = list[float | None](), ProbeClient.subscribe

    def noting(client: ProbeClient, interval_s: float | None) -> None:
        asked.append(interval_s)
        subscribe(client, interval_s)

    monkeypatch.setattr(ProbeClient, "subscribe", noting)
    child = python.start("import gputui.probe\nprint('ready', flush=True)\ninput()")
    child.expect("ready")
    with child.attach() as client:
        assert one_moment(client, Snapshot).devices == ()
    assert asked
    assert once.WATCH_EVERY_S not in asked


HIDDEN_BYTES = 1 << 22
HIDDEN = """
    import itertools

    hidden = itertools.chain([torch.ones(1 << 20, device=device)])
    print("hidden", flush=True)
    input()
"""


def test_one_look_goes_through_all_objects_where_variables_lead_to_too_little(cuda_python: Python) -> None:
    child = cuda_python.fork(TRAINING + HIDDEN)
    child.expect("hidden")
    with child.attach() as client:
        device = one_moment(client, Snapshot).devices[0]
        assert device.layout.by_category[Category.UNATTRIBUTED] < HIDDEN_BYTES


DEEP = """
    nested = inside = {}
    for level in range(12):
        inside[level] = inside = {}
    inside["kept"] = [torch.ones(300, 1000, device=device) for _ in range(8)]
    del inside
    print("hidden", flush=True)
    input()
"""


def test_one_look_goes_on_until_all_that_can_be_found_has_a_name(
    cuda_python: Python, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(once, "NAMES_WAIT_S", LIMIT_S)  # on a busy machine, looks take longer
    child = cuda_python.fork(TRAINING + DEEP)
    child.expect("hidden")
    with child.attach() as client:
        moment = one_moment(client, Snapshot)
    assert sum(name.startswith("nested[0]") for name in names(moment.look)) == 8, names(moment.look)
    assert moment.devices[0].layout.not_yet_bytes == 0


TRAINS_IN_A_THREAD = """
    import threading, time

    def train():
        local_model = torch.nn.Linear(64, 64).to(device)
        while True:
            local_model(torch.randn(8, 64, device=device)).sum().backward()
            time.sleep(0.005)

    thread = threading.Thread(target=train, daemon=True)
    thread.start()
    thread.join()
"""


def test_tensors_of_a_training_in_a_thread_are_named(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + TRAINS_IN_A_THREAD, **DRIVEN)
    child.expect("ready")
    with child.attach() as client:
        looks = [automatic_look(client), automatic_look(client), client.look()]
    for look in looks:
        assert {"model.0.weight", "local_model.weight"} <= names(look)
        assert not [problem for problem in look.problems if "did not come back" in problem.text]


def test_the_main_thread_is_used_again_once_it_is_back(torch_python: Python) -> None:
    child = torch_python.fork(
        TRAINING
        + """
    from _thread import get_ident
    from gputui.probe.inventory import inventory
    original, threads = inventory.take_inventory, []

    def noted(*arguments):
        threads.append("main" if get_ident() == main else "own")
        return original(*arguments)

    main, inventory.take_inventory = get_ident(), noted
    input()
    print("awake", flush=True)
    import os
    while not os.path.exists("done"):
        step()
    print("threads", *threads, flush=True)
    input()
    """,
        **DRIVEN,
    )
    child.expect("ready")
    with child.attach() as client:
        client.look()
        client.look()
        child.say("wake up")
        child.expect("awake")
        client.look(wait_s=PATIENT_S)
        (torch_python.folder / "done").touch()
        assert child.expect("threads") == "own own main"


LONG_CALL = """
    import hashlib
    print("busy", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)  # runs without the interpreter
"""


def test_tensors_of_a_program_in_a_long_call_are_named(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + LONG_CALL, **DRIVEN)
    child.expect("busy")
    with child.attach() as client:
        look = automatic_look(client)
    assert "model.0.weight" in names(look)
    assert look.inventory.is_of_one_moment
    assert look.problems == ()


BACKWARD = """
    from gputui.probe.looks import looks, torch_reader
    looks.IN_BACKWARD_S = {patience_s}
    if {is_older}:
        torch_reader.can_read_saved = lambda torch: False

    class Waiting(torch.autograd.Function):
        @staticmethod
        def forward(context, value):
            return value.clone()

        @staticmethod
        def backward(context, gradient):
            print("backward", flush=True)
            input()
            return gradient

    Waiting.apply(model(torch.randn(32, 64, device=device))).sum().backward()
    print("over", flush=True)
"""


def test_an_automatic_look_waits_for_the_end_of_a_backward_pass(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + BACKWARD.format(patience_s=PATIENT_S, is_older=False) + FOR_EVER, **DRIVEN)
    child.expect("backward")
    with child.attach() as client:
        client.subscribe(0.1)
        client.ask_look(when="changed", wait_s=PATIENT_S)
        assert {type(client.receive(LIMIT_S)) for _ in range(10)} == {Statistics}
        child.say("go on")
        look = next_look(client)
        assert IN_BACKWARD not in [problem.text for problem in look.inventory.problems]
        if "model.0.weight" not in names(look):  # a busy machine had no time for them in one stop
            look = automatic_look(client)
    assert "model.0.weight" in names(look)


@pytest.mark.parametrize("is_older", [False, True], ids=["2.10 and newer", "before 2.10"])
def test_a_look_during_a_long_backward_pass_leaves_the_graph_alone(torch_python: Python, is_older) -> None:
    child = torch_python.fork(TRAINING + BACKWARD.format(patience_s=0.0, is_older=is_older) + FOR_EVER, **DRIVEN)
    child.expect("backward")
    with child.attach() as client:
        look = automatic_look(client, stops=1)
        for _ in range(LOOKS):
            if is_older or names(look):
                break
            look = automatic_look(client, stops=1)
        child.say("go on")
        child.expect("over")
        later = client.look()
    if is_older:
        assert look.inventory is None
        assert [problem.text for problem in look.problems] == [BACKWARD_ENDANGERED]
    else:
        assert IN_BACKWARD in [problem.text for problem in look.inventory.problems]
        assert "model.0.weight" in names(look)
    assert "model.0.weight" in names(later)


def test_a_look_during_which_the_main_thread_moves_is_taken_again(torch_python: Python) -> None:
    child = torch_python.fork(
        TRAINING
        + """
    import os, threading, time
    from gputui.probe.inventory import inventory
    original, calls, turns, gate = inventory.take_inventory, 0, 0, threading.Semaphore(0)

    def waking(*arguments):
        global calls
        calls += 1
        if (calls == 1 or os.path.exists("always")) and threading.get_ident() != threading.main_thread().ident:
            before = turns
            gate.release()
            while turns == before:
                time.sleep(0.001)
        return original(*arguments)

    inventory.take_inventory = waking
    while True:
        gate.acquire()
        turns += 1
    """,
        **DRIVEN,
    )
    child.expect("ready")
    with child.attach() as client:
        assert client.look().inventory.is_of_one_moment  # the second try
        (torch_python.folder / "always").touch()
        assert not all(client.look().inventory.is_of_one_moment for _ in range(20))


def test_a_call_that_a_signal_handler_lost_is_asked_for_again(torch_python: Python) -> None:
    child = torch_python.fork(
        TRAINING
        + """
    from _thread import get_ident
    from gputui.probe.inventory import inventory
    from gputui.probe.main_thread import pending_call, calls
    original, calls.LOST_AFTER_S, threads = pending_call.PendingCall.__bool__, 0.1, []
    take, main = inventory.take_inventory, get_ident()

    def lost(call, losses=[]):
        if not losses:
            losses.append(call)
            raise TimeoutError  # as a signal handler does between the queue and the first instruction
        return original(call)

    def noted(*arguments):
        threads.append(get_ident())
        return take(*arguments)

    inventory.take_inventory, pending_call.PendingCall.__bool__ = noted, lost
    import os
    while main not in threads:
        try:
            step()
        except TimeoutError:
            pass
    print("back", threads[0] == main, flush=True)
    input()
    """,
        **DRIVEN,
    )
    child.expect("ready")
    with child.attach() as client:
        for _ in range(8):
            client.look()
        assert child.expect("back") == "False"


def test_own_thread_looks_leave_the_interpreter_as_it_was(torch_python: Python) -> None:
    child = torch_python.fork(
        TRAINING
        + """
    import gc, signal, threading
    sys.setswitchinterval(0.003)
    before = sys.getswitchinterval(), gc.isenabled(), threading.active_count(), signal.pthread_sigmask(0, [])
    """
        + ASLEEP
        + """
    print((sys.getswitchinterval(), gc.isenabled(), threading.active_count(), signal.pthread_sigmask(0, [])) == before)
    input()
    """,
        **DRIVEN,
    )
    child.expect("ready")
    with child.attach() as client:
        for _ in range(5):
            client.look()
        child.say("wake up")
        child.expect("awake")
        assert child.expect("True") == ""


def test_the_main_thread_is_found_in_a_forked_process(torch_python: Python) -> None:
    child = torch_python.fork(
        TRAINING
        + """
    import threading, time
    from gputui.probe.main_thread import activity

    def watch():
        while not activity.is_waiting():
            time.sleep(0.001)
        one = activity.Watch()
        print("moved", one.has_moved(), flush=True)
        while not one.has_moved():
            time.sleep(0.001)
        print("moved", one.has_moved(), flush=True)

    threading.Thread(target=watch).start()
    while input() != "end":
        pass
    """,
        **DRIVEN,
    )
    child.expect("ready")
    assert child.expect("moved") == "False"
    child.say("go on")
    assert child.expect("moved") == "True"
    child.say("end")
    assert child.ended() == 0


REPLACING = """
    import gputui.probe, threading, time, torch
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def train():
        parameters = [torch.nn.Parameter(torch.zeros(64, 64, device=device)) for _ in range(20)]
        while True:
            for parameter in parameters:
                parameter.grad = torch.zeros_like(parameter)
            for parameter in parameters:
                parameter.grad = None

    threading.Thread(target=train, daemon=True).start()
    print("ready", flush=True)
    threading.Event().wait()
"""
REPLACING_IN_THREE = REPLACING.replace("threading.Event().wait()", "while True: pass").replace(
    "threading.Thread(", "for _ in range(3): threading.Thread("
)
"""Looks stop the main thread, and a thread that waits for the interpreter then has its turn in the middle of one."""
LOOKS_WHILE_REPLACED = scaled(3, 20)


@pytest.mark.long
@pytest.mark.every_torch
@pytest.mark.parametrize("program", [REPLACING, REPLACING_IN_THREE], ids=["main thread waits", "main thread runs"])
def test_a_program_that_replaces_gradients_in_a_thread_survives_looks(torch_python: Python, program: str) -> None:
    """PyTorch lets other threads run while it frees a gradient, to which the parameter then still leads."""
    child = torch_python.fork(program, **DRIVEN)
    child.expect("ready")
    with child.attach() as client:
        for _ in range(LOOKS_WHILE_REPLACED):
            client.look()
    assert child.process.poll() is None
