"""Real child processes for the tests of host and process readings."""

import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from gputui.model.machine.device import DeviceLook, DeviceUse
from gputui.model.machine.process import Process
from gputui.sources.processes import ProcessSource
from gputui.units import MIB
from tests.hanging import HANGS_S

T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent.parent
NOBODY = 65534

IDLE = "print('ready', flush=True); import time; time.sleep(600)"
BUSY = "print('ready', flush=True)\nwhile True: pass"
AS_NOBODY = f"import os; os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY}); "
ZOMBIE = "import os; child = os.fork() or os._exit(0); print('ready', child, flush=True); import time; time.sleep(600)"

SHARED_MIB = 120
WORKERS = 4

FAMILY = f"""
import os, signal
shared = b"x" * ({SHARED_MIB} << 20)
children = []
for _ in range({WORKERS}):
    child = os.fork()
    if not child:
        signal.pause()
    children.append(child)
print("ready", *children, flush=True)
signal.pause()
"""
"""A parent and its workers, which share `SHARED_MIB` of memory as the workers of a DataLoader do."""


class Child(NamedTuple):
    """A running program; `words` are what it printed after "ready"."""

    pid: int
    words: list[str]


@contextmanager
def running(code: str, *arguments: str, wrapper: tuple[str, ...] = (), **environment: str) -> Iterator[Child]:
    """A Python program that has printed "ready"; its session, with all its children, is killed afterwards."""
    command = [*wrapper, sys.executable, "-c", code, *arguments]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True, env={**os.environ, **environment}
    )
    with child:
        try:
            assert child.stdout is not None
            ready, *words = child.stdout.readline().split()
            assert ready == "ready"
            yield Child(child.pid, words)
        finally:
            os.killpg(child.pid, signal.SIGKILL)


def in_namespace(*flags: str, script: str) -> str:
    """The output of a Python script in new namespaces of the kinds in `flags`; the script must succeed."""
    result = subprocess.run(
        ["unshare", *flags, sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def as_nobody(function: Callable[[], T]) -> T:
    """The result of `function` for an unprivileged user, in a fork of this process."""
    receiving, sending = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            with os.fdopen(sending, "wb") as pipe:
                pickle.dump(function(), pipe)
            status = 0
        finally:  # the fork must never continue as a second test run
            if status:
                traceback.print_exc()
            os._exit(status)
    os.close(sending)
    with os.fdopen(receiving, "rb") as pipe:
        answer = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return pickle.loads(answer)


def on_device(*pids: int, used_bytes: int = 100 * MIB) -> DeviceLook:
    """What NVML would report if each of these processes held memory on one device."""
    return DeviceLook(uses=tuple(DeviceUse("GPU-0", pid, "C", used_bytes) for pid in pids))


def look_at(source: ProcessSource, *pids: int) -> tuple[Process, ...]:
    return source.read(on_device(*pids)).processes
