"""Programs that do what few do (tiny stacks, no garbage collection, developer mode) run with looks as without."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import product

import pytest

from gputui.sources.probe import listing, loading
from tests.attach.children import PASSED_OVER, Child, Python
from tests.scale import some

BEGIN = f"""
    {{first}}
    import gc, os, sys, threading, time, torch
    {PASSED_OVER}

    rows = [torch.empty(1000, device="cuda") for _ in range(10)]

    def is_over():
        return os.path.exists("done")
"""
END = """
    print("ended", sum(row.numel() for row in rows), found, flush=True)
    sys.exit(3)
"""
SMALL_STACKS = """
    wrong = []

    def work():
        while not is_over():
            if sum(range(1000)) != 499500:
                wrong.append(1)
            time.sleep(0.001)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    sys.stdin.readline()  # so the probe's own thread looks
    for thread in threads:
        thread.join()
    found = wrong
"""
UNCOLLECTED = """
    gc.disable()
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    thresholds = gc.get_threshold()
    print("ready", flush=True)
    while not is_over():
        rows[0].numel()
        time.sleep(0.001)
    found = gc.isenabled(), gc.get_threshold() == thresholds, gc.garbage
"""
PLAIN = """
    print("ready", flush=True)
    while not is_over():
        rows[0].numel()
        time.sleep(0.001)
    found = 0
"""
PROGRAMS = {
    "small stacks": ("import threading; threading.stack_size(65536)", SMALL_STACKS, "[]"),
    "no collector": ("", UNCOLLECTED, "(False, True, [])"),
    "developer mode": ("", PLAIN, "0"),
}
OPTIONS = {"developer mode": ["-X", "dev", "-W", "default", "-W", "ignore:Failed to initialize NumPy"]}
"""PyTorch itself warns where there is no NumPy."""
RUN = (sys.executable, "-m", "gputui", "run")


def run_with_the_probe(python: Python, words: list[str]) -> Child:
    child = python.run([*RUN, *words])
    child.expect("ready")
    return child


def put_in(python: Python, words: list[str]) -> Child:
    child = python.run(words)
    child.expect("ready")
    loading.put_probe_in(child.pid, lambda _sentence: None)
    return child


@pytest.mark.long
@pytest.mark.parametrize(("name", "ways"), some(product(PROGRAMS, (run_with_the_probe, put_in)), 3))
def test_looks_change_nothing(cuda_python: Python, name: str, ways: Callable[[Python, list[str]], Child]) -> None:
    first, body, found = PROGRAMS[name]
    source = cuda_python._script(BEGIN.format(first=first) + body + END)
    child = ways(cuda_python, [cuda_python.path, *OPTIONS.get(name, ["-W", "ignore"]), source])
    with listing.attach(child.pid) as client:
        for how in ("walk", "scan", "walk", "walk", "scan", "walk"):
            look = client.look(how)
            assert look.inventory is not None, look.problems
            assert [kept.size_bytes for kept in look.inventory.storages if kept.device >= 0] == [4000] * 10
    (cuda_python.folder / "done").touch()
    child.say("")
    assert child.expect("ended") == f"10000 {found}"
    assert (child.ended(), child.errors) == (3, "")
