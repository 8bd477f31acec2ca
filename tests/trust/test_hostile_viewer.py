"""A malicious viewer: the target keeps running, its memory stays bounded, and the viewer is dropped.

Tests of single malformed frames are in `tests/attach/test_wire.py`; these send many, huge or no frames.
"""

from __future__ import annotations

import json
import socket
import struct
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from gputui.protocol import frames
from gputui.sources.probe.client import ProbeError
from tests.attach.children import Python, wait_until
from tests.attach.wire import HELLO, connected, frame
from tests.hanging import HANGS_S, NOT_WITHIN_S
from tests.scale import SCALE
from tests.trust.conftest import COUNTING, Target

MANY = 20_000 * SCALE
"""The number of frames that the long tests send."""
BOUND_BYTES = 24 * 1024**2
QUIET = 6
"""Descriptors of a program without a viewer: the standard three, the listening socket, the waker's two sockets."""

DEEP = 300
REQUESTS = {
    "marks": {"type": "mark", "label": "x" * 20},
    "hellos": {"type": "hello", "protocol": frames.VERSION},
    "looks": {"type": "look", "how": ""},
    "subscriptions": {"type": "statistics", "interval_s": 0.1},
}


def assert_target_keeps_running(target: Target) -> None:
    """Wait until the target makes steps, has closed every connection, and accepts the next viewer."""
    before = target.steps()
    wait_until(lambda: target.steps() > before + 10, "the target's steps")
    wait_until(lambda: target.descriptors() == QUIET + 1, "the end of every connection")
    wait_until(lambda: accepts_a_viewer(target), "the next viewer's turn")


def accepts_a_viewer(target: Target) -> bool:
    """Whether it answers in time; while it still serves a crowd, only a later try succeeds."""
    try:
        target.child.attach().close()
    except ProbeError:
        return False
    return True


def send_all(connection: socket.socket, data: bytes) -> None:
    """Send until the target closes the connection, discarding its answers."""
    connection.setblocking(False)
    view, sent = memoryview(data), 0
    while sent < len(data):
        with suppress(BlockingIOError):
            sent += connection.send(view[sent : sent + 1_000_000])
        with suppress(BlockingIOError):
            if connection.recv(1_000_000) == b"":
                return


@pytest.mark.long
@pytest.mark.parametrize("name", REQUESTS)
def test_a_flood_of_frames_keeps_memory_bounded(target: Target, name: str, record_property) -> None:
    record_property("count", f"{MANY} frames")
    data = frame(REQUESTS[name]) * (MANY // 10)
    before = target.child.anonymous_bytes()
    with closing(connected(target.path)) as connection:
        send_all(connection, HELLO)
        with suppress(ConnectionError):
            for _ in range(10 if name != "hellos" else 1):  # each hello is answered with two messages
                send_all(connection, data)
                assert target.child.anonymous_bytes() < before + BOUND_BYTES
    assert_target_keeps_running(target)


@pytest.mark.long
def test_a_flood_from_a_viewer_that_never_reads_keeps_memory_bounded(target: Target, record_property) -> None:
    record_property("count", f"{MANY} frames")
    before = target.child.anonymous_bytes()
    with closing(connected(target.path)) as connection:
        connection.sendall(HELLO)
        connection.settimeout(NOT_WITHIN_S)
        with suppress(OSError):
            connection.sendall(frame(REQUESTS["hellos"]) * MANY)
        assert target.child.anonymous_bytes() < before + BOUND_BYTES
    assert_target_keeps_running(target)


def test_the_probe_does_not_wait_for_a_frame_of_four_gibibytes(target: Target) -> None:
    with closing(connected(target.path)) as connection:
        connection.sendall(HELLO + struct.pack(">4sI", b"gptu", 2**32 - 1))
        sent = 0
        with suppress(OSError):
            while sent < 2**28:
                sent += connection.send(b"[" * 2**20)
        assert sent < 2**24
    assert_target_keeps_running(target)


def test_four_silent_connections_are_dropped(python: Python) -> None:
    impatient = "    from gputui.probe.viewers import connection\n    connection.PATIENCE_S = 0.3\n"
    target = Target(python.start(impatient + COUNTING), python.folder)
    with ExitStack() as stack:
        silent = [stack.enter_context(closing(connected(target.path))) for _ in range(4)]
        assert [connection.recv(1) for connection in silent] == [b""] * 4
    assert_target_keeps_running(target)


def test_a_thousand_short_connections_keep_memory_bounded(target: Target) -> None:
    before = target.child.anonymous_bytes()
    for number in range(1000):
        with (
            suppress(OSError),
            closing(connected(target.path)) as connection,
        ):  # also when the backlog of the socket is full
            connection.sendall((HELLO, b"", b"gp", HELLO + b"gptu")[number % 4])
    assert target.child.anonymous_bytes() < before + BOUND_BYTES
    assert_target_keeps_running(target)


ODD = {
    "a number no float can hold": frame({"type": "statistics", "interval_s": 10**400}),
    "a protocol no float can hold": frame({"type": "hello", "protocol": 10**400}),
    "not a number": frame({"type": "look", "wait_s": float("nan")}),
    "infinity": frame({"type": "statistics", "interval_s": float("-inf")}),
    "a lone surrogate": frame({"type": "mark", "label": "\ud800"}),
    "deep lists": frames.frame(b'{"type":"look","how":' + b"[" * DEEP + b"]" * DEEP + b"}"),
    "a deep type": frames.frame(b'{"type":' + b"[" * DEEP + b"]" * DEEP + b"}"),
    "a hello at the end": frame({"type": "bye"}) + HELLO,
    "two looks at once": HELLO + frame({"type": "look"}) * 2,
    "a look with an enormous wait": frame({"type": "look", "wait_s": 1e308}),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_request_ends_at_most_its_own_connection(target: Target, name: str) -> None:
    with closing(connected(target.path)) as connection:
        connection.sendall(HELLO + ODD[name])
        connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            while connection.recv(65536):
                pass
    assert_target_keeps_running(target)


def test_deep_nesting_is_refused_with_the_same_sentence_at_every_depth(target: Target) -> None:
    for depth in range(940, 1001):
        payload = b'{"type":"look","how":' + b"[" * depth + b"]" * depth + b"}"
        with closing(connected(target.path)) as connection:
            connection.sendall(HELLO + frames.frame(payload))
            assert b"cannot be understood" in _receive_until_closed(connection)
    assert_target_keeps_running(target)


def test_descriptors_sent_by_a_viewer_are_closed(target: Target) -> None:
    with closing(connected(target.path)) as connection, open("/dev/null") as null:  # noqa: PTH123
        socket.send_fds(connection, [HELLO], [null.fileno()] * 50)
        assert json.loads(connection.recv(65536)[frames.HEADER_BYTES :].split(b"gptu")[0])["type"] == "hello"
        assert target.descriptors() == QUIET + 2
    assert_target_keeps_running(target)


FULL = """
    import os, resource, sys, time
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
"""
FILL = """
    import gputui.probe
    from gputui.probe import running
    from gputui.probe.viewers import sockets
    tries, accept, back_off = [], sockets.Listener.accept, running.Running._back_off
    sockets.Listener.accept = lambda listener: (tries.append(1), accept(listener))[1]
    running.Running._back_off = lambda self: (tries.append(1), back_off(self))[1]
    print("ready", flush=True)
    input()
    held = []
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    print("full", gputui.probe.status(), flush=True)
    input()
    while not tries:
        time.sleep(0.01)
    print("tries", len(tries), flush=True)
    for fd in held:
        os.close(fd)
    input()
"""


@pytest.mark.parametrize("viewers_before", [0, 1])
def test_a_program_out_of_descriptors_lets_viewers_wait_without_a_busy_loop(
    python: Python, viewers_before: int
) -> None:
    child = python.start(FULL + FILL)
    child.expect("ready")
    for _ in range(viewers_before):
        child.attach().close()
    wait_until(lambda: len(list(Path(f"/proc/{child.pid}/fd").iterdir())) == QUIET, "the viewer's end")
    child.say("fill")
    path = child.expect("full")
    with closing(connected(path)) as waiting:
        waiting.sendall(HELLO)
        waiting.settimeout(NOT_WITHIN_S)
        with pytest.raises(TimeoutError):
            waiting.recv(1)
        child.say("how many")
        assert int(child.expect("tries")) < 20
        waiting.settimeout(HANGS_S)
        assert waiting.recv(4) == b"gptu"


def test_a_program_out_of_descriptors_at_the_start_runs_without_a_probe(python: Python) -> None:
    child = python.start(FULL + NO_START)
    assert child.expect("status").startswith("off: [Errno 24]")
    child.say("end")
    assert (child.ended(), child.errors) == (0, "")


NO_START = """
    import gputui.probe.lifecycle as probe
    probe.stop()
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(61)]
    probe.start()
    print("status", probe.status(), flush=True)
    input()
"""


def _receive_until_closed(connection: socket.socket) -> bytes:
    data = b""
    while received := connection.recv(65536):
        data += received
    return data
