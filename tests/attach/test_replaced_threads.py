"""Programs in which a library has replaced Python's threads: looks trust no number of theirs, and run no code of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest

from gputui.sources.probe import listing, loading
from tests.attach.children import PASSED_OVER, Child, Python
from tests.scale import some

GEVENT = f"""
    {{before}}
    from gevent import monkey
    monkey.patch_all()
    {{after}}
    import os, gevent, torch
    {PASSED_OVER}
    steps = [0] * 4

    def work(number):
        rows = []
        while not os.path.exists("done"):
            rows = [torch.empty(1000, device="cuda"), *rows[:9]]
            assert sum(row.numel() for row in rows) == 1000 * len(rows)
            steps[number] += 1
            gevent.sleep(0.001)
        return len(rows)

    jobs = [gevent.spawn(work, number) for number in range(4)]
    gevent.sleep(0.1)
    print("ready", flush=True)
    gevent.joinall(jobs)
    print("ended", [job.value for job in jobs], min(steps) > 10, flush=True)
"""
IMPORT = "import gputui.probe"
RUN = (sys.executable, "-m", "gputui", "run")


def script(python: Python, *, before: str = "", after: str = "") -> list[str]:
    """The command that runs the program, with a line before and one after gevent replaces the threads."""
    return [python.path, "-W", "ignore", python._script(GEVENT.format(before=before, after=after))]


def run_with_the_probe(python: Python) -> Child:
    return python.run([*RUN, *script(python)])


def imported_before(python: Python) -> Child:
    return python.run(script(python, before=IMPORT))


def imported_after(python: Python) -> Child:
    return python.run(script(python, after=IMPORT))


def put_in(python: Python) -> Child:
    child = python.run(script(python))
    child.expect("ready")
    loading.put_probe_in(child.pid, lambda _sentence: None)
    return child


WAYS = (run_with_the_probe, imported_before, imported_after, put_in)


@pytest.mark.packages("gevent")
@pytest.mark.long
@pytest.mark.parametrize("ways", some(WAYS, 3))
def test_looks_at_a_program_of_gevents(cuda_python: Python, cuda_path: str, ways: Callable[[Python], Child]) -> None:
    child = ways(cuda_python)
    if ways is not put_in:
        child.expect("ready")
    with listing.attach(child.pid) as client:
        for how in ("walk", "walk", "scan", "walk"):
            look = client.look(how)
            assert not look.problems
            assert look.inventory is not None
            assert look.inventory.storages
        assert not client.statistics().problems
    (cuda_python.folder / "done").touch()
    assert child.expect("ended") == "[10, 10, 10, 10] True"
    assert (child.ended(), child.errors) == (0, "")


WILD = """
    import gputui.probe, json, threading, time, torch
    kept = torch.empty(1000, device="cuda")
    threading.main_thread()._ident = {ident}
    threading.get_ident = lambda: {ident}
    threading.main_thread = lambda: threading._main_thread
    print("ready", flush=True)
    while not input():
        pass
    print("ended", kept.numel(), flush=True)
"""


@pytest.mark.parametrize("ident", ["8", "2**47 - 4096", "None"])
def test_a_wild_number_of_the_main_thread_reaches_no_function_of_c(cuda_python: Python, ident: str) -> None:
    child = cuda_python.fork(WILD.format(ident=ident))
    child.expect("ready")
    with listing.attach(child.pid) as client:
        for _ in range(3):
            look = client.look()
            assert [storage.size_bytes for storage in look.inventory.storages if storage.device >= 0] == [4000]
    child.say("end")
    assert child.expect("ended") == json.dumps(1000)
    assert child.ended() == 0


FROZEN = """
    import time, torch
    kept = torch.empty(1000, device="cuda")
    for name, value in {"time": 1e9, "monotonic": 5.0, "perf_counter": 5.0, "thread_time": 5.0}.items():
        setattr(time, name, lambda value=value: value)
    import gputui.probe
    print("ready", flush=True)
    input()
    print("ended", kept.numel(), flush=True)
"""


def test_a_program_may_freeze_the_clocks(cuda_python: Python) -> None:
    """As freezegun does; the main thread waits for input, so a look is taken after a deadline by the probe's thread."""
    child = cuda_python.fork(FROZEN)
    child.expect("ready")
    with listing.attach(child.pid) as client:
        look = client.look()
        assert [storage.size_bytes for storage in look.inventory.storages if storage.device >= 0] == [4000]
        assert look.time > 1.5e9
        assert client.statistics().devices
    child.say("end")
    assert child.expect("ended") == "1000"
    assert child.ended() == 0
