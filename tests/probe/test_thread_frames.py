"""Asking for the frames of all threads, while objects are freed that let other threads run."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path

from gputui.probe.guards.thread_frames import current_frames, stack
from tests.torches import REPOSITORY

LIMIT_S = 120
PROGRAM = """
import gc, sys, threading, time
from gputui.probe.guards.thread_frames import current_frames, stack

class Releasing:
    # part of a cycle, whose end lets other threads run, as that of a tensor does
    def __init__(self):
        self.me = self
    def __del__(self):
        time.sleep(0.001)

gc.set_threshold(1)
is_over = False

def look():
    while not is_over:
        Releasing()
        for frame in current_frames().values():
            assert all(isinstance(caller.f_lineno, int) for caller in stack(frame))

looking = threading.Thread(target=look)
looking.start()
def nest(depth):
    return nest(depth - 1) if depth else 0

for _ in range(300):
    nest(20)
    thread = threading.Thread(target=time.sleep, args=(0,))
    thread.start()
    thread.join()
is_over = True
looking.join()
print("ended", gc.isenabled())
"""


def test_frames_are_asked_for_without_a_collection(tmp_path: Path) -> None:
    """In Python 3.11, the thread that asks and one that starts would wait for each other for ever."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "GPUTUI_PROBE": "0"}
    done = subprocess.run(
        [sys.executable, path], env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    assert done.stdout.split() == ["ended", "True"]


def test_what_was_asked_for_is_gone_without_a_collection() -> None:
    class Kept:
        pass

    def ask() -> weakref.ref[Kept]:
        kept = Kept()
        assert all(stack(frame) for frame in current_frames().values())
        return weakref.ref(kept)

    gc.disable()
    try:
        assert ask()() is None
    finally:
        gc.enable()
    assert ask()() is None


def test_nothing_else_asks_for_them() -> None:
    asking = [
        path for path in (REPOSITORY / "gputui" / "probe").rglob("*.py") if "sys._current_frames" in path.read_text()
    ]
    assert [path.name for path in asking] == ["thread_frames.py"]
