"""Programs that skip the import of PyTorch: each is forked from a process that has imported it and done nothing else.

`import torch` costs 1.7 s of processor time, and the first optimizer 1.4 s more (it imports `torch._dynamo`). A forked
program has its own arguments, `__main__`, environment, folder, session, standard streams and exit, and it initialises
CUDA like any other program: neither PyTorch nor the fake driver reads its settings at import (PyTorch 2.11), except for
`backend:` in PYTORCH_CUDA_ALLOC_CONF. It computes in one thread, because other tests run at the same time. By day it
ends right after its exit functions, unless WHOLE_END is set: to clear PyTorch's modules copies their pages, for 0.6 s.

gputui itself is forked, too, where a test runs one of its commands in a usual environment: it imports for half a
second, and for a whole one before it draws a screen.

A test may fork if it is about what a probe reads or does in a running program. It needs its own interpreter if it is
about the start or anything before the first line (`gputui run`, sitecustomize, torchrun, exec), about what PyTorch or
the probe import and when, about PYTHONHASHSEED or the allocator's backend, about runs that must be equal bit for bit,
or about `/proc/PID/cmdline`, which is that of the forking process.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import IO
from zlib import crc32

PROCESS = Path(__file__).parent / "process.py"
COMMAND = Path(__file__).parent / "command_line.py"
"""The command line of gputui, as a program that can be forked."""
REPOSITORY = Path(__file__).resolve().parent.parent.parent
ENVIRONMENT_BYTES = 1 << 16
"""The largest environment of a program: it overwrites that of the forking process."""
READ_BY_THE_LOADER = ("LD_LIBRARY_PATH", "LD_PRELOAD")
RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
"""The same in all of pytest-xdist's workers: they share each forking process, as its imports take long."""


class ForkServer:
    """An interpreter that has imported `modules` and forks programs; it ends with the last process that uses it."""

    def __init__(self, python: str, modules: tuple[str, ...], variables: Mapping[str, str]) -> None:
        asked = json.dumps([python, modules, sorted(variables.items())])
        address = f"\0gputui-tests-{RUN}-{crc32(asked.encode()):x}"
        while True:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
                if is_first(listening, address):
                    start(listening, python, modules, variables)
            self._control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                self._control.connect(address)
            except ConnectionRefusedError:  # the other worker has not come to listen, or the process has just ended
                self._control.close()
                os.sched_yield()
            else:
                break
        atexit.register(self._control.close)

    def ask(self, request: Mapping[str, object], descriptors: tuple[int, ...] = ()) -> dict[str, int]:
        """Send a request and return the answer to it."""
        socket.send_fds(self._control, [json.dumps(request).encode()], descriptors)
        answer = self._control.recv(1 << 16)
        assert answer, "the forking process has ended"
        message: dict[str, int] = json.loads(answer)
        return message


def is_first(listening: socket.socket, address: str) -> bool:
    """Listen there, unless somebody does."""
    with suppress(OSError):
        listening.bind(address)
        listening.listen(64)
        return True
    return False


def start(listening: socket.socket, python: str, modules: tuple[str, ...], variables: Mapping[str, str]) -> None:
    """Start a forking process that takes connections from `listening`."""
    own = {"GPUTUI_PROBE": "0", "PYTHONPATH": "", "FAKEGPU_STATE": "/nowhere", "OMP_NUM_THREADS": "1"}
    if any(name.startswith("gputui.") for name in modules):
        own["PYTHONPATH"] = str(REPOSITORY)
    room = {"ROOM": " " * ENVIRONMENT_BYTES}
    subprocess.Popen(
        [python, "-W", "ignore", str(PROCESS), str(listening.fileno()), *modules],
        env={**os.environ, **variables, **own, **room},
        pass_fds=[listening.fileno()],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


@lru_cache
def _server(python: str, modules: tuple[str, ...], variables: tuple[tuple[str, str], ...]) -> ForkServer:
    return ForkServer(python, modules, dict(variables))


class Forked:
    """A forked program, with the part of `subprocess.Popen` that the tests use."""

    def __init__(
        self,
        python: str,
        words: list[str],
        modules: tuple[str, ...],
        *,
        env: Mapping[str, str],
        cwd: Path,
        stderr: IO[bytes],
        stdout: IO[bytes] | None = None,
        terminal: str = "",
    ) -> None:
        early = tuple((name, env[name]) for name in READ_BY_THE_LOADER if env.get(name))
        self._server = _server(python, modules, early)
        stdin, write = os.pipe()
        read, own_stdout = os.pipe()
        self.stdin, self.stdout = os.fdopen(write, "wb"), os.fdopen(read, "rb")
        request = {"fork": words, "environment": dict(env), "folder": str(cwd), "terminal": terminal}
        output = stdout.fileno() if stdout else own_stdout
        try:
            self.pid = self._server.ask(request, (stdin, output, stderr.fileno()))["pid"]
        finally:
            os.close(stdin)
            os.close(own_stdout)
        self._pidfd = os.pidfd_open(self.pid)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit status, or None while the program runs."""
        return self._wait(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the program to end and return its exit status."""
        status = self._wait(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the program has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the program."""
        self.send_signal(signal.SIGKILL)

    def _wait(self, timeout_s: float | None) -> int | None:
        if self.returncode is None and select.select([self._pidfd], [], [], timeout_s)[0]:
            self.returncode = os.waitstatus_to_exitcode(self._server.ask({"wait": self.pid})["status"])
            os.close(self._pidfd)
        return self.returncode
