"""Child processes that tests attach to: they synchronise on the child's output, and clean up after it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path

from gputui.sources.probe import listing
from gputui.sources.probe.client import ProbeClient
from tests import hanging
from tests.forkserver import Forked
from tests.hanging import HANGS_S
from tests.scale import sized
from tests.torches import FORKED_AFTER, REPOSITORY

PACKAGE = REPOSITORY / "gputui"

LIMIT_S = HANGS_S

DRIVEN = {"PYTHONPATH": f"{REPOSITORY / 'tests' / 'attach' / 'driven'}:{REPOSITORY}"}
"""Variables of a program whose looks a test drives: see the file in that folder."""

PASSED_OVER = sized(
    "import ctypes, gc, sys; gc.freeze(); calls, one = ctypes.pythonapi, ctypes.py_object(sys); "
    "calls.PyObject_GC_UnTrack(one); calls.PyObject_GC_Track(one)",
    "",
)
"""A line for a program that cannot be forked: looks pass over the objects of its imports, as in forked ones."""


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Poll until `condition` is true; the message of a failure names `what`."""
    hanging.wait_until(condition, lambda: f"{what} has not happened")


@contextmanager
def as_another_user(uid: int = 12345) -> Iterator[None]:
    """Use the effective user ID of a user who does not exist; needs root, so such tests are marked `root`."""
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


Start = Callable[..., subprocess.Popen[bytes] | Forked]
"""Starts a process with the environment `env`, in the folder `cwd`, with `stderr` as its standard error."""


def words_of_gputui(errors: str) -> list[str]:
    """The lines of a program's errors that are gputui's: its sentences, and places in its files.

    The word alone may be part of any path.
    """
    own = ("gputui: ", "<gputui>", f"{PACKAGE}/")
    return [line for line in errors.splitlines() if line.startswith(own[0]) or any(map(line.__contains__, own[1:]))]


_numbers = count()


class Child:
    """A running program with its output."""

    def __init__(self, start: Start, environment: Mapping[str, str], folder: Path) -> None:
        self._error_path = folder / f"stderr-{next(_numbers)}"
        self._text = ""
        with self._error_path.open("wb") as errors:
            self.process = start(env=dict(environment), cwd=folder, stderr=errors)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def errors(self) -> str:
        return self._error_path.read_text(errors="replace")

    def anonymous_bytes(self) -> int:
        """Anonymous host memory, from smaps_rollup: `statm` is only an estimate on machines with many processors."""
        rollup = Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) * 1024 for line in rollup if line.startswith("Anonymous:"))

    def say(self, line: str) -> None:
        """Write a line to the program's standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def expect(self, start: str) -> str:
        """Read output up to the first line that begins with `start`, and return the rest of that line."""
        while True:
            line, newline, rest = self._text.partition("\n")
            if newline:
                self._text = rest
                if line.startswith(start):
                    return line.removeprefix(start).strip()
            else:
                self._read(start)

    def attach(self) -> ProbeClient:
        """Connect to the program's probe, which may answer late: this machine can be busy."""
        client = listing.attach(self.pid)
        client._answer_within_s = HANGS_S
        return client

    def ended(self) -> int:
        """Wait for the program to end, kill what it has left running, and return its exit status."""
        if self.process.returncode is None:
            handle = os.pidfd_open(self.pid)
            is_over = select.select([handle], [], [], LIMIT_S)[0]
            os.close(handle)
            assert is_over, f"the program has not ended\n{self.errors}"
            self._kill_group()
        return self.process.wait(LIMIT_S)

    def end(self) -> None:
        """Kill the program's process group, and close its streams."""
        if self.process.returncode is None:
            self._kill_group()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        self.process.wait(LIMIT_S)

    def _kill_group(self) -> None:
        """Kill the program and its children, before its end is asked for: after that its PID may be another's."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def _read(self, start: str) -> None:
        assert self.process.stdout is not None
        is_ready = select.select([self.process.stdout], [], [], HANGS_S)[0]
        assert is_ready, f"the program hangs before a line {start!r}\n{self.errors}"
        data = os.read(self.process.stdout.fileno(), 65536)
        assert data, f"no line {start!r}, and exit status {self.ended()}\n{self.errors}"
        self._text += data.decode(errors="replace")


class Python:
    """An interpreter under test, and the child processes that one test runs with it."""

    def __init__(self, path: str, folder: Path, environment: Mapping[str, str]) -> None:
        self.path = path
        self.folder = folder
        self.environment = {**os.environ, "GPUTUI_PROBE": "1", "PYTHONPATH": str(REPOSITORY), **environment}
        self._children: list[Child] = []

    def start(self, source: str, *arguments: str, options: tuple[str, ...] = (), **variables: str) -> Child:
        """Run `source` as a script."""
        return self.run([self.path, *options, self._script(source), *arguments], **variables)

    def run(self, command: list[str], **variables: str) -> Child:
        """Run a command with this interpreter's environment."""
        start = partial(
            subprocess.Popen, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        return self._child(start, variables)

    def fork(
        self, source: str | Path, *arguments: str, modules: tuple[str, ...] = FORKED_AFTER, **variables: str
    ) -> Child:
        """Run a script, or source text, in a process forked after the import of modules: see `tests.forkserver`."""
        script = str(source) if isinstance(source, Path) else self._script(source)
        return self._child(partial(Forked, self.path, [script, *arguments], modules), variables)

    def _script(self, source: str) -> str:
        script, new = self.folder / "train.py", self.folder / "train.py.new"
        new.write_text(textwrap.dedent(source))
        new.replace(script)  # a rank that was started right before may just be reading it
        return str(script)

    def _child(self, start: Start, variables: Mapping[str, str]) -> Child:
        child = Child(start, {**self.environment, **variables}, self.folder)
        self._children.append(child)
        return child

    def end(self) -> None:
        """End every child."""
        for child in self._children:
            child.end()
