"""Programs of other people's frameworks: how each is started, and one that runs in a folder of its own."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.torches import REPOSITORY, fake_cuda, lacking_packages

FOLDER = Path(__file__).parent / "programs" / "frameworks"
WITHIN_S = 300.0
"""A program that takes longer to start or to end hangs."""
PUT_IN, RUN = "put in", "gputui run"


@dataclass(frozen=True, slots=True)
class Program:
    """How one is started: `tool` comes before the script; `beside` runs beside it, `after` after it, each a module."""

    script: str
    packages: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    tool: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    status: int = 3

    def lacking(self, python: str) -> list[str]:
        """What an interpreter's environment has not."""
        tools = [word for word in self.beside[:1] if not word.endswith(".py")]
        return [*lacking_packages(python, self.packages), *(one for one in tools if not _tool(python, one).exists())]


PROGRAMS = {
    "uvicorn, asyncio": Program("asgi.py", ("uvicorn",), ("asyncio",)),
    "uvicorn, uvloop": Program("asgi.py", ("uvicorn", "uvloop"), ("uvloop",)),
    "gevent": Program("gevent_greenlets.py", ("gevent",)),
    "eventlet": Program("eventlet_greenlets.py", ("eventlet",)),
    "trio": Program("trio_nursery.py", ("trio",)),
    "tornado": Program("tornado_server.py", ("tornado",)),
    "twisted": Program("twisted_reactor.py", ("twisted",)),
    "celery, prefork": Program("celery_pool.py", ("celery",)),
    "joblib, loky": Program("loky_pool.py", ("joblib",)),
    "dask": Program("dask_cluster.py", ("distributed",)),
    "ray": Program("ray_worker.py", ("ray",)),
    "coverage": Program(
        "plain.py", ("coverage",), tool=("coverage", "run", "--branch"), after=("coverage", "report", "-m")
    ),
    "debugpy": Program(
        "plain.py",
        ("debugpy",),
        tool=("debugpy", "--listen", "PORT"),
        beside=(str(FOLDER / "debugger.py"), "PORT", str(FOLDER / "plain.py"), "16"),
    ),
    "py-spy beside it": Program("plain.py", beside=("py-spy", "record", "-o", "spied", "-p", "PID")),
    "pyinstrument": Program("plain.py", ("pyinstrument",), tool=("pyinstrument", "-o", "profile")),
    "viztracer": Program("plain.py", ("viztracer",), tool=("viztracer", "--quiet", "-o", "trace.json")),
    "memray": Program("plain.py", ("memray",), tool=("memray", "run", "--quiet", "-o", "memory")),
    "scalene": Program("plain.py", ("scalene",), tool=("scalene", "run", "--cpu", "--outfile", "profile", "---")),
    "cProfile": Program("plain.py", tool=("cProfile", "-o", "profile"), status=0),
    "500 threads": Program("many_threads.py"),
    "a timer's signal, 1 kHz": Program("timer_signal.py"),
}


def _tool(python: str, name: str) -> Path:
    return Path(python).parent / name


class FailedError(Exception):
    """A program that hangs, or that could not be looked into."""


@dataclass(slots=True)
class Run:
    """What became of one run; `waits_ms` are how late the program came back from waits, by phase.

    `stops_ms` are the longest stops that looks told of, by phase.
    """

    output: str = ""
    errors: str = ""
    status: int | None = None
    waits_ms: dict[str, list[float]] = field(default_factory=dict)
    stops_ms: dict[str, float] = field(default_factory=dict)
    whole_looks: int = 0
    looks: int = 0
    problems: Counter[str] = field(default_factory=Counter)

    def longest_ms(self, phase: str) -> float | None:
        """The longest wait in a phase, None for a program that tells none."""
        return max(self.waits_ms.get(phase, ()), default=None)

    def differs_from(self, other: Run) -> list[str]:
        """What of the program is not as in another run."""
        names = ("status", "output", "errors")
        return [
            f"{name} {_of(self, name)!r} after {_of(other, name)!r}"
            for name in names
            if _of(self, name) != _of(other, name)
        ]


def _of(run: Run, name: str) -> object:
    value = getattr(run, name)
    return re.sub(r"\d+", "N", value)[-1500:] if name == "errors" else value


class Running:
    """A program that runs in a folder of its own."""

    def __init__(self, python: str, program: Program, folder: Path, way: str) -> None:
        self._python, self._program, self.folder = python, program, folder
        self._port = free_port()
        own = {**os.environ, **fake_cuda(python, folder, gpus=1), "XDG_RUNTIME_DIR": str(folder)}
        self._environment = own | {"PYTHONPATH": "", "PYTHONWARNINGS": "ignore", "RAY_DEDUP_LOGS": "0"}
        self.phase("beginning")
        words = [python, *self._module(program.tool), str(FOLDER / program.script), *program.arguments]
        if way == RUN:
            words = [sys.executable, "-m", "gputui", "run", *words]
            self._environment["PYTHONPATH"] = str(REPOSITORY)
        with (folder / "output").open("w") as output, (folder / "errors").open("w") as errors:
            self._process = subprocess.Popen(
                words, cwd=folder, env=self._environment, stdout=output, stderr=errors, stdin=subprocess.DEVNULL
            )
        self.pid = int(self._wait_until_ready())

    def phase(self, name: str) -> None:
        """Say what goes on: the program keeps its waits by that."""
        with suppress(FileNotFoundError):
            (self.folder / "new").unlink()
        (self.folder / "new").symlink_to(name)
        (self.folder / "new").rename(self.folder / "phase")

    @contextmanager
    def with_another_beside(self) -> Iterator[None]:
        """With the tool that belongs beside the program, which must not have ended before."""
        if not self._program.beside:
            yield
            return
        words = [word.replace("PID", str(self.pid)) for word in self._program.beside]
        first = [self._python] if words[0].endswith(".py") else [str(_tool(self._python, words.pop(0)))]
        words = [*first, *(word.replace("PORT", self._port) for word in words)]
        with (self.folder / "beside").open("w") as output:
            tool = subprocess.Popen(words, cwd=self.folder, env=self._environment, stdout=output, stderr=output)
        try:
            yield
        finally:
            has_ended = tool.poll() is not None
            with suppress(ProcessLookupError):
                tool.terminate()
            tool.wait(WITHIN_S)
        if has_ended:
            raise FailedError(f"{words[1]} ended before the program: {(self.folder / 'beside').read_text()[-1000:]}")

    def end(self, run: Run) -> None:
        """Ask the program to end, and note what it said."""
        (self.folder / "done").touch()
        try:
            run.status = self._process.wait(WITHIN_S)
        except subprocess.TimeoutExpired:
            run.status = None
        self.kill()
        run.output, run.errors = ((self.folder / name).read_text() for name in ("output", "errors"))
        run.output = run.output.replace(f"ready {self.pid}", "ready")
        if self._program.after:
            words = [self._python, *self._module(self._program.after)]
            run.output += subprocess.run(words, cwd=self.folder, check=False, capture_output=True, text=True).stdout
        waits = self.folder / "waits"
        late = json.loads(waits.read_text()) if waits.exists() else {}
        run.waits_ms = {phase: [1000 * one for one in late_s] for phase, late_s in late.items()}

    def kill(self) -> None:
        """End it in any case."""
        self._process.kill()
        self._process.wait()

    def _module(self, words: tuple[str, ...]) -> list[str]:
        return ["-m", *(word.replace("PORT", self._port) for word in words)] if words else []

    def _wait_until_ready(self) -> str:
        deadline = time.monotonic() + WITHIN_S
        while not (said := re.search(r"ready (\d+)\n", (self.folder / "output").read_text())):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise FailedError(f"It did not start: {(self.folder / 'errors').read_text()[-2000:]}")
            time.sleep(0.05)
        return said[1]


def free_port() -> str:
    """A port of this machine that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])
