"""A malicious target: the viewer checks and bounds its messages, and never lets its text control the terminal.

Tests of single malformed messages are in `tests/attach/test_wire.py`.
"""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from gputui.explain.moment.probe_state import MARKS_AT_MOST
from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.target import Statistics
from gputui.model.decode import DecodeError, decode
from gputui.model.machine.snapshot import Snapshot
from gputui.protocol import frames
from gputui.sources.probe import client as viewer
from gputui.sources.probe.client import ProbeClient, ProbeError
from gputui.sources.probe.feed import TargetFeed
from tests.attach.children import LIMIT_S, Child, Python, wait_until
from tests.attach.command import gputui
from tests.attach.small_training import TRAINING
from tests.attach.wire import frame
from tests.hanging import NOT_WITHIN_S, POLL_S
from tests.terminal.conftest import GPUTUI, Open, plain_environment, terminal

__all__ = ["plain_environment", "terminal"]

GREETING = frame({"type": "hello", "protocol": frames.VERSION}) + frame(
    {
        "type": "greeting",
        "pid": 1,
        "command": "x",
        "python": "3",
        "torch": "",
        "rank": None,
        "world_size": None,
        "is_cuda_initialized": False,
        "devices": [],
    }
)
MARK = frame({"type": "mark", "time": 1.0, "label": "x" * 100})
LONG_MARK = frame({"type": "mark", "time": 1.0, "label": "x" * 1_000_000})
STATISTICS = frame({"type": "statistics", "time": 1.0, "devices": [], "pinned_bytes": None})


@contextmanager
def false_probe(folder: Path, answer: Callable[..., None]) -> Iterator[str]:
    """A socket whose first connection is handed to `answer`, until the viewer closes it."""
    path = str(folder / "s")
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(path)
        listener.listen()

        def talk() -> None:
            connection, _ = listener.accept()
            with closing(connection), suppress(OSError):
                connection.recv(65536)
                answer(connection)

        thread = threading.Thread(target=talk)
        thread.start()
        yield path
        thread.join()


def test_the_viewer_ignores_a_false_pid(sockets: Path) -> None:
    with (
        false_probe(sockets.parent, lambda connection: connection.sendall(GREETING)) as path,
        ProbeClient(path, 4711) as client,
    ):
        assert client.greeting.pid == 4711


def test_the_viewer_gives_up_on_a_frame_that_never_ends(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewer, "RESULT_WITHIN_S", NOT_WITHIN_S)

    def drip(connection) -> None:
        connection.sendall(GREETING + LONG_MARK[:8])
        while True:
            connection.sendall(b" ")
            time.sleep(POLL_S)

    silent = pytest.raises(ProbeError, match="did not answer within")
    with false_probe(sockets.parent, drip) as path, ProbeClient(path, 1) as client, silent:
        client.look(wait_s=0.0)


def test_the_viewer_gives_up_when_other_messages_never_stop(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewer, "RESULT_WITHIN_S", NOT_WITHIN_S)

    def chatter(connection) -> None:
        connection.sendall(GREETING)
        while True:
            connection.sendall(MARK * 100)

    silent = pytest.raises(ProbeError, match="did not answer within")
    with false_probe(sockets.parent, chatter) as path, ProbeClient(path, 1) as client, silent:
        client.statistics()


def test_a_feed_keeps_only_as_many_marks_as_it_shows(sockets: Path) -> None:
    def flood(connection) -> None:
        connection.sendall(GREETING)
        for _ in range(50):
            connection.sendall(MARK * 100)
        connection.sendall(STATISTICS)

    moments: list[TargetMoment] = []
    with false_probe(sockets.parent, flood) as path:
        feed = TargetFeed(ProbeClient(path, 1), Snapshot, moments.append, interval_s=1.0)
        feed.start()
        wait_until(lambda: moments, "the statistics after the flood")
        feed.stop()
    assert len(moments[0].marks) == MARKS_AT_MOST


def test_a_small_payload_cannot_create_millions_of_objects() -> None:
    payload = b'{"type":"look","map":[' + b"{}," * (frames.MAX_PARTS // 2 + 1) + b"{}]}"
    with pytest.raises(frames.FrameError, match="more than 16000000 values"):
        frames.decode(payload)


ODD = {
    "a number no float can hold": {"time": 10**400},
    "a time that no clock shows": {"time": 1e17},
    "a time before all clocks": {"time": -1e17},
    "no number": {"time": float("nan")},
    "a deep list": {"time": json.loads("[" * 900 + "]" * 900)},
    "a deep text": {"problems": json.loads("[" * 900 + "]" * 900)},
    "a lone surrogate": {"problems": ["\ud800", 1]},
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_value_is_refused_with_a_short_printable_sentence(name: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(Statistics, {"time": 1.0, "devices": [], "pinned_bytes": None, **ODD[name]})
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200


ORDER = "\x1b[99m\x1b]0;owned\x07\x9b99m\n\r\u202e训"
OBEYED = (b"\x1b[99m", b"\x1b]0;owned", b"\x9b99m", "\u202e".encode())

HOSTILE = (
    TRAINING.replace('print("ready"', 'print("trained"')
    + f"""
    import ctypes, os
    evil = {ORDER!r}
    other = torch.nn.Sequential()
    other.add_module(evil, torch.nn.Linear(512, 512).to(device))
    globals()[evil] = torch.zeros(1 << 20, device=device)
    ctypes.CDLL(None).prctl(15, evil[:9].encode())
    gputui.probe.mark(evil)
    print("ready", device, flush=True)
    import time
    while True:
        step()
        time.sleep(0.05)
"""
)


@pytest.fixture
def hostile(torch_python: Python) -> Child:
    """A program whose names all contain terminal escape sequences."""
    child = torch_python.fork(HOSTILE, ORDER, EVIL=ORDER, **{"EVIL" + ORDER: "1"})
    child.expect("ready")
    return child


def printed(python: Python, *words: str, lines: int = 0) -> str:
    """The stdout and stderr of a command, which is terminated after `lines` lines, if that is not 0."""
    variables = {**python.environment, "LD_PRELOAD": "", "GPUTUI_PROBE": "0"}
    if not lines:
        return "".join(gputui(*words, environment=variables)[1:])
    process = subprocess.Popen(
        [sys.executable, "-m", "gputui", *words],
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,  # readline must leave nothing in a buffer that communicate() would miss
    )
    assert process.stdout is not None
    first = b"".join(process.stdout.readline() for _ in range(lines))
    process.terminate()
    return (first + process.communicate(timeout=LIMIT_S)[0]).decode()


def test_no_name_in_a_program_can_control_the_terminal(
    torch_python: Python,
    hostile: Child,
    terminal: Open,
) -> None:
    pid = str(hostile.pid)
    for words in (["attach"], ["attach", pid, "--once"], ["attach", pid, "--once", "--json"], ["--once"], ["doctor"]):
        text = printed(torch_python, *words)
        assert all(line.isprintable() for line in text.split("\n")), words
    live = printed(torch_python, "attach", pid, lines=3)
    assert live.startswith(pid)
    assert all(line.isprintable() for line in live.split("\n"))
    snapshot = torch_python.folder / "snapshot.pickle"
    assert printed(torch_python, "snapshot", pid, "-o", str(snapshot)).rstrip("\n").isprintable()
    variables = {**torch_python.environment, "LD_PRELOAD": "", "GPUTUI_PROBE": "0"}
    variables.update(TERM="xterm-256color", LANG="C.UTF-8")
    session = terminal(f"exec {GPUTUI} attach {shlex.quote(pid)}", size=(120, 40), **variables)
    session.wait_for("? Help")
    for key in "123456":
        session.send(key)
        session.wait_for_silence(0.3)
    session.send("4u")
    shown = (b"owned", b"has not initialised CUDA")  # a CPU build has no device
    session.wait(lambda: any(words in session.output for words in shown), "the names")
    session.send("\x1b")
    session.wait_for_silence(0.3)
    session.send("\x03")
    session.end()
    assert hostile.process.poll() is None, hostile.errors
    assert [order for order in OBEYED if order in session.output] == []


def test_a_folder_name_in_an_error_message_cannot_control_the_terminal(torch_python: Python, sockets: Path) -> None:
    evil = sockets.parent / "\x1b]0;owned\x07"
    (evil / "gputui").mkdir(parents=True)
    (evil / "gputui").chmod(0o777)
    child = torch_python.fork("    import sys\n    print('ready', flush=True)\n    input()", XDG_RUNTIME_DIR=str(evil))
    child.expect("ready")
    text = printed(torch_python, "attach", str(child.pid))
    assert "cannot be trusted" in text
    assert "\x1b" not in text
