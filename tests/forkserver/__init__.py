"""Programs that skip the import of PyTorch: each is forked from a process that has imported it and done nothing else.

`import torch` costs 1.7 s of processor time, and the first optimizer 1.4 s more (it imports `torch._dynamo`). A forked
program has its own arguments, `__main__`, environment, folder, session, standard streams and exit, and it initialises
CUDA like any other program: neither PyTorch nor the fake driver reads its settings at import (PyTorch 2.11), except for
`backend:` in PYTORCH_CUDA_ALLOC_CONF. It computes in one thread, because other tests run at the same time.

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
from functools import lru_cache
from pathlib import Path
from typing import IO

PROCESS = Path(__file__).parent / "process.py"
COMMAND = Path(__file__).parent / "command_line.py"
"""The command line of gputui, as a program that can be forked."""
REPOSITORY = Path(__file__).resolve().parent.parent.parent
ENVIRONMENT_BYTES = 1 << 16
"""The largest environment of a program: it overwrites that of the forking process."""
READ_BY_THE_LOADER = ("LD_LIBRARY_PATH", "LD_PRELOAD")


class ForkServer:
    """An interpreter that has imported `modules` and forks programs; it ends with this process."""

    def __init__(self, python: str, modules: tuple[str, ...], variables: Mapping[str, str]) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        own = {"GPUTUI_PROBE": "0", "PYTHONPATH": "", "FAKEGPU_STATE": "/nowhere", "OMP_NUM_THREADS": "1"}
        if any(name.startswith("gputui.") for name in modules):
            own["PYTHONPATH"] = str(REPOSITORY)
        room = {"ROOM": " " * ENVIRONMENT_BYTES}
        with theirs:
            self._process = subprocess.Popen(
                [python, "-W", "ignore", str(PROCESS), str(theirs.fileno()), *modules],
                env={**os.environ, **variables, **own, **room},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        atexit.register(self._end)

    def ask(self, request: Mapping[str, object], descriptors: tuple[int, ...] = ()) -> dict[str, int]:
        """Send a request and return the answer to it."""
        socket.send_fds(self._control, [json.dumps(request).encode()], descriptors)
        answer = self._control.recv(1 << 16)
        assert answer, f"the forking process has ended with {self._process.wait()}"
        message: dict[str, int] = json.loads(answer)
        return message

    def _end(self) -> None:
        self._control.close()
        self._process.wait()


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
        early = tuple((name, env[name]) for name in READ_BY_THE_LOADER if name in env)
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
