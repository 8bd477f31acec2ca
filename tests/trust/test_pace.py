"""The program makes progress, and stays as it was, however often viewers ask: counted in steps, not in time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from gputui.model.attached.target import ActionName, ActionResult, Look
from gputui.sources.probe.client import ProbeClient, ProbeError
from tests.attach.children import DRIVEN, LIMIT_S, Child, Python, words_of_gputui
from tests.attach.small_training import FOR_EVER, TRAINING
from tests.scale import SCALE, scaled

VIEWERS = 3
LOOKS = scaled(1, 6)

# Under a profiler that takes long for each function of the probe, and lets other threads run when a call of it returns.
COUNTED = """
    import os, sys, time
    from gputui.probe.main_thread import pending_call
    turns, at, original = 0, [], pending_call.PendingCall.__bool__

    def counted(call):
        at.append(turns)
        return original(call)

    def profile(frame, event, argument):
        if frame.f_globals["__name__"].startswith("gputui."):
            for _ in range(20):
                pass
            if event == "return" and frame.f_code.co_name in ("__bool__", "counted"):
                time.sleep(0.01)

    pending_call.PendingCall.__bool__ = counted
    {switch_on}
    print("counting", flush=True)
    while not os.path.exists("done"):
        turns += 1
    sys.setprofile(None)
    sys.settrace(None)
    print("calls", len(at), len(set(at)), flush=True)
"""
TRACED = """sys.settrace(lambda frame, event, argument: profile)
    counted.__globals__["profile"] = profile"""


@contextmanager
def storm(child: Child, *, looks: int, collects: bool = True) -> Iterator[None]:
    """Several viewers that ask for looks, counters and actions as fast as they are answered."""

    def ask(number: int) -> None:
        with child.attach() as client:
            client.subscribe(0.1)
            for turn in range(looks):
                client.ask_look(("walk", "", "scan")[(number + turn) % 3])
                client._await(Look, LIMIT_S)  # on a busy machine, each viewer waits for the others' looks
                if collects and turn % 5 == number:
                    client.ask_action(ActionName.COLLECT)
                    client._await(ActionResult, LIMIT_S)

    with ThreadPoolExecutor(VIEWERS) as viewers:
        asked = [viewers.submit(ask, number) for number in range(VIEWERS)]
        yield
        for future in asked:
            future.result()


@pytest.mark.long
@pytest.mark.parametrize("switch_on", ["sys.setprofile(profile)", TRACED], ids=["profiled", "traced"])
def test_the_program_runs_between_two_calls_however_slow_they_are(torch_python: Python, switch_on: str) -> None:
    child = torch_python.fork(TRAINING + COUNTED.format(switch_on=switch_on))
    child.expect("counting")
    with storm(child, looks=LOOKS):
        pass
    (torch_python.folder / "done").touch()
    calls, apart = map(int, child.expect("calls").split())
    assert calls == apart
    assert calls > LOOKS


THREADS_THAT_WORK = """
    import hashlib, os, random, signal, threading, time
    from gputui.probe.looks import looks
    looks.IN_BACKWARD_S = 0.0  # one thread is in a backward pass nearly all the time
    torch.set_num_threads(1)
    counts, faults, handled = dict.fromkeys(("trained", "allocated", "forked"), 0), [], []

    def worker(name):
        def run(work):
            def loop():
                try:
                    while not os.path.exists("done"):
                        work()
                        counts[name] += 1
                        time.sleep(0.01)
                except BaseException as error:
                    faults.append(repr(error))
            thread = threading.Thread(target=loop)
            thread.start()
            return thread
        return run

    @worker("trained")
    def trains():
        step()
        local = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
        value = local(torch.ones(4, 16)).sum()
        expected = torch.autograd.grad(value, list(local.parameters()), retain_graph=True)
        value.backward()
        assert all(torch.equal(p.grad, e) for p, e in zip(local.parameters(), expected))

    @worker("allocated")
    def allocates():
        kept = [torch.empty(random.randrange(1, 5000), device=device) for _ in range(20)]
        copies = [torch.full((random.randrange(1, 5000),), float(n)) for n in range(20)]
        random.shuffle(copies)
        del kept[::2], copies[10:]
        assert all(bool((tensor == tensor[0]).all()) for tensor in copies)

    @worker("forked")
    def forks():
        pid = os.fork()
        if pid == 0:
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7

    signal.signal(signal.SIGALRM, lambda *_: handled.append(threading.get_ident()))
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    print("working", flush=True)
    for thread in (trains, allocates, forks):
        thread.join()  # returns to Python for each signal, and waits again
    signal.setitimer(signal.ITIMER_REAL, 0)
    print("waits", flush=True)
    input()
    print("faults", faults, set(handled) == {threading.get_ident()}, min(counts.values()) > 10, flush=True)
    raise SystemExit(5)
"""


@pytest.mark.long
def test_threads_signals_and_forks_go_on_beside_looks_in_the_probes_thread(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + THREADS_THAT_WORK)
    child.expect("working")
    with storm(child, looks=SCALE):  # a look of each kind: it needs Python's lock, which three threads are after
        pass
    (torch_python.folder / "done").touch()
    child.expect("waits")
    with storm(child, looks=SCALE, collects=False):  # nobody runs an action in a main thread that waits for input
        pass
    child.say("end")
    assert child.expect("faults") == "[] True True"
    assert child.ended() == 5
    assert words_of_gputui(child.errors) == []


def ask_until_the_end(client: ProbeClient) -> None:
    """Ask for looks until the program has ended."""
    with client:
        while True:
            client.look()


WAITS = {
    "for input": "input()",
    "asleep": "while not os.path.exists('done'): time.sleep(0.05)",
    "for a thread": "threading.Thread(target=input).start()",
}


@pytest.mark.parametrize("waits", WAITS.values(), ids=WAITS)
def test_a_program_ends_while_it_is_looked_at_in_the_probes_thread(torch_python: Python, waits: str) -> None:
    child = torch_python.fork(
        f"{TRAINING}\n    import os, threading, time\n    {waits}\n    raise SystemExit(6)\n", WHOLE_END="1"
    )
    child.expect("ready")
    client = child.attach()
    client.ask_look()
    (torch_python.folder / "done").touch()
    child.say("end")
    with pytest.raises(ProbeError):
        ask_until_the_end(client)
    assert child.ended() == 6
    assert child.errors == ""


def test_a_main_thread_that_comes_and_goes_is_looked_at_every_time(torch_python: Python) -> None:
    child = torch_python.fork(TRAINING + FOR_EVER.replace("step()", "step(); time.sleep(0.07)"), **DRIVEN)
    child.expect("ready")
    with child.attach() as client:
        looks = [client.look(wait_s=LIMIT_S / 10) for _ in range(10)]
    for look in looks:
        assert "model.0.weight" in {storage.owner for storage in look.inventory.storages}
        assert look.inventory.is_of_one_moment
        assert look.problems == ()
