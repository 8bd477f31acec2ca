"""What `gputui attach NODE:PID` is like over a slow line: how long looks and keys take.

    pip install -e . --group real && python -m benchmarks.far [--programs trainer,llama] [--delay-ms 50] [--mbit 1]

A real sshd is reached through a line that delays each direction and has so many Mbit/s (`programs/slow_line.py`). The
programs run on fake GPUs. Looks are asked for one after the other, and timed from the question until the whole answer
is read; keys are pressed on the screen while it watches, and timed until what they open is drawn. Needs OpenSSH's
server, and for root unshare: the node then has a network of its own.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles

from benchmarks.looks import check, command_of, preload
from gputui.sources.probe.far import FarClient, Place
from tests.attach.nodes import SSHD, Node, running_node
from tests.terminal.conftest import GPUTUI
from tests.terminal.pty_session import PtySession
from tests.torches import REPOSITORY, fake_cuda, torch_pythons

SLOW_LINE = Path(__file__).parent / "programs" / "slow_line.py"
SETTLING_S = 20.0
LOOKS = 20
SCREENS = {"2": "TENSOR", "1": "Device", "5": "Why"}
KEYS = 90


@contextmanager
def slow_node(folder: Path, delay_s: float, bits_per_s: float) -> Iterator[Node]:
    """A node behind such a line, on which the programs of this user are found."""
    with running_node(folder, variables={"XDG_RUNTIME_DIR": os.environ["XDG_RUNTIME_DIR"]}, is_apart=True) as node:
        server = node.through or shlex.join([SSHD, "-i", "-f", str(folder / "sshd_config")])
        node.through = f"{shlex.join([sys.executable, str(SLOW_LINE), str(delay_s), str(bits_per_s)])} {server}"
        node.login_with("user")
        yield node


@contextmanager
def running(python: str, program: str, folder: Path) -> Iterator[int]:
    """The PID of a program with a probe."""
    variables = {**os.environ, **fake_cuda(python, folder, gpus=1), **preload(REPOSITORY, 1), "HF_HUB_OFFLINE": "1"}
    command = ["setpriv", "--pdeathsig", "KILL", python, "-W", "ignore", *command_of(program)]
    with (folder / f"{program} wrote").open("wb") as log:
        process = subprocess.Popen(command, env=variables, cwd=folder, stdout=log, stderr=log)
    try:
        time.sleep(SETTLING_S)
        yield process.pid
    finally:
        process.kill()
        process.wait()


def looks_s(node: str, pid: int) -> list[float]:
    """How long looks take, from the question to the answer."""
    taken = []
    with FarClient(Place(node, pid), lambda _program: "no", lambda _words: None, may_ask=False) as client:
        for _ in range(LOOKS):
            began = time.perf_counter()
            client.look(wait_s=10.0)
            taken.append(time.perf_counter() - began)
    return taken


def keys_s(node: Node, pid: int) -> tuple[float, list[float]]:
    """How long the first look takes to be on the screen, and each key until what it opens is drawn."""
    began = time.perf_counter()
    command = f"exec {GPUTUI} attach {node.name}:{pid}"
    session = PtySession(command, {**os.environ, **node.variables, "TERM": "xterm-256color"}, (120, 40))
    session.wait_for("looked")
    first_s, taken = time.perf_counter() - began, []
    for number in range(KEYS):
        key = list(SCREENS)[number % len(SCREENS)]
        before = session.text
        pressed = time.perf_counter()
        session.send(key)
        session.wait(lambda: session.text != before, "another screen")  # noqa: B023 - it is called here
        taken.append(time.perf_counter() - pressed)
        session.wait_until_idle()
        while session.pump(0.0):
            continue
    session.send("q")
    if session.end():
        raise SystemExit(f"gputui ended:\n{session.text}")
    return first_s, taken


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the programs, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default="trainer,llama")
    parser.add_argument("--delay-ms", type=float, default=50.0, help="of each direction")
    parser.add_argument("--mbit", type=float, default=1.0, help="a second, in each direction")
    parsed = parser.parse_args(arguments)
    python, programs = torch_pythons()[0], parsed.programs.split(",")
    check(python, programs)
    for program in programs:
        with tempfile.TemporaryDirectory(prefix="gputui-") as name:
            folder = Path(name)
            os.environ["XDG_RUNTIME_DIR"] = name
            line = slow_node(folder / "node", parsed.delay_ms / 1e3, parsed.mbit * 1e6)
            with running(python, program, folder) as pid, line as node:
                os.environ["PATH"] = node.variables["PATH"]
                looks = looks_s(node.name, pid)
                first_s, keys = keys_s(node, pid)
        last = quantiles(keys, n=100)[98]
        print(
            f"{program}: looks {median(looks):.2f} s, at most {max(looks):.2f} s; on the screen after {first_s:.1f} s;"
            f" keys {median(keys) * 1e3:.0f} ms, 99th percentile {last * 1e3:.0f} ms",
            flush=True,
        )


if __name__ == "__main__":
    main()
