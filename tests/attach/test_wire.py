"""The protocol between probe and viewer: what each side refuses to accept from the other."""

from __future__ import annotations

import json
import signal
import socket
import struct
import sys
import threading
import time
from array import array
from binascii import b2a_base64
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from gputui.model.attached.target import ActionResult, Greeting, Look, Statistics
from gputui.model.decode import DecodeError, decode
from gputui.protocol import frames
from gputui.sources.probe.client import ProbeClient, ProbeError
from gputui.sources.probe.messages import references_part
from tests.attach.children import LIMIT_S, REPOSITORY, Child, Python, as_another_user, wait_until
from tests.attach.wire import HELLO, connected, frame
from tests.hanging import POLL_S, Limit

WAITING = "import gputui.probe\nprint('ready', gputui.probe.status(), flush=True)\ninput()"
IMPATIENT = "from gputui.probe.viewers import connection\nconnection.PATIENCE_S = 0.5\n" + WAITING


@pytest.fixture
def child(python: Python) -> Child:
    return python.start(WAITING)


@pytest.fixture
def path(child: Child) -> str:
    return child.expect("ready")


def answers_to(path: str, data: bytes) -> list[dict[str, object]]:
    """All messages that a probe sends in answer to `data` before it closes the connection."""
    unpacker, messages = frames.Unpacker(frames.MAX_REPLY_BYTES), []
    with closing(connected(path)) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        while received := connection.recv(65536):
            messages += [frames.decode(payload) for payload in unpacker.feed(received)]
    return messages


GARBAGE = {
    "another protocol": (b"GET / HTTP/1.1\r\n\r\n", "not a frame of gputui"),
    "noise": (bytes(range(255, 0, -1)) * 10, "not a frame of gputui"),
    "a huge frame": (struct.pack(">4sI", b"gptu", 2**32 - 1), "a frame of 4294967295 bytes"),
    "no JSON": (frames.frame(b"\xff\xfe"), "not JSON"),
    "deep JSON": (frames.frame(b"[" * 60000), "not JSON"),
    "a list": (frame([1]), "not a message"),
    "no hello": (frame({"type": "look"}), "its first message is not hello"),
    "an unknown request": (HELLO + frame({"type": "eval", "code": "1"}), "type is 'eval'"),
    "an interval that is not a number": (HELLO + frame({"type": "statistics", "interval_s": "1"}), "interval_s is '1'"),
    "an unknown kind of look": (HELLO + frame({"type": "look", "how": "all"}), "how is 'all'"),
    "a pause that is not a number": (HELLO + frame({"type": "look", "pause_ms": "5"}), "pause_ms is '5'"),
    "an unknown action": (HELLO + frame({"type": "action", "name": "eval"}), "name is 'eval'"),
    "an action whose name is a list": (HELLO + frame({"type": "action", "name": ["collect"]}), "name is"),
    "an action's wait that is not a number": (
        HELLO + frame({"type": "action", "name": "collect", "wait_s": "1"}),
        "wait_s is '1'",
    ),
    "a place of another form": (HELLO + frame({"type": "references", "place": [1]}), "place is"),
    "a place that is no list": (HELLO + frame({"type": "references", "place": 7}), "place is 'int'"),
    "objects that are no numbers": (HELLO + frame({"type": "garbage", "steps": ["1"]}), "steps is 'list'"),
    "objects without types": (HELLO + frame({"type": "garbage", "steps": [1]}), "type_steps is 'NoneType'"),
    "a label that is not text": (HELLO + frame({"type": "mark", "label": [1]}), "label is '[1]'"),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_an_invalid_request_is_refused_and_the_next_viewer_is_served(child: Child, path: str, name: str) -> None:
    data, reason = GARBAGE[name]
    last = answers_to(path, data)[-1]
    assert last["type"] == "refused"
    assert reason in str(last["reason"])
    child.attach().close()


def test_a_viewer_of_another_version_is_refused_with_both_versions(path: str) -> None:
    (answer,) = answers_to(path, frame({"type": "hello", "protocol": 99}))
    assert answer["protocol"] == frames.VERSION
    assert answer["reason"] == f"The probe speaks version {frames.VERSION} of the protocol, the viewer 99."


@contextmanager
def false_probe(folder: Path, data: bytes) -> Iterator[str]:
    """A socket that answers the first connection with `data`."""
    path = str(folder / "s")
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(path)
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with closing(connection):
                connection.recv(65536)
                connection.sendall(data)
                connection.recv(65536)

        thread = threading.Thread(target=answer)
        thread.start()
        yield path
        thread.join()


FALSE_PROBES = {
    "an older version": (
        frame({"type": "refused", "protocol": 0, "gputui": "0.0.9\x1b[2J", "reason": "no"}),
        r"is from gputui 0\.0\.9\\x1b\[2J; gputui .* cannot talk to it\. Use the same version on both sides",
    ),
    "a newer version": (
        frame({"type": "hello", "protocol": frames.VERSION + 1, "gputui": "3.0"}),
        "is from gputui 3.0; gputui ",
    ),
    "another program": (
        b"220 mail.example.org ESMTP\r\n",
        "sent a message that gputui cannot read: not a frame of gputui",
    ),
    "a huge frame": (
        struct.pack(">4sI", b"gptu", 2**32 - 1),
        "sent a message that gputui cannot read: a frame of 4294967295 bytes",
    ),
    "a greeting with missing fields": (
        frame({"type": "hello", "protocol": frames.VERSION}) + frame({"type": "greeting", "pid": 1}),
        "Greeting.command is expected",
    ),
    "no greeting": (
        frame({"type": "hello", "protocol": frames.VERSION}) + frame({"type": "mark", "time": 1, "label": ""}),
        "it sent no greeting",
    ),
}


@pytest.mark.parametrize("name", FALSE_PROBES)
def test_the_viewer_refuses_a_false_probe(sockets: Path, name: str) -> None:
    data, reason = FALSE_PROBES[name]
    with false_probe(sockets.parent, data) as path, pytest.raises(ProbeError, match=reason):
        ProbeClient(path, 1)


def test_at_most_four_viewers_can_attach(child: Child, path: str) -> None:
    viewers = [child.attach() for _ in range(4)]
    viewers[0].mark("now")
    assert {type(viewer.receive(LIMIT_S)).__name__ for viewer in viewers} == {"Mark"}
    with pytest.raises(ProbeError, match="4 viewers are connected already"):
        child.attach()
    viewers.pop().close()
    wait_until(lambda: _descriptors(child) == _descriptors_of(3), "the end of one viewer")
    child.attach().close()
    for viewer in viewers:
        viewer.close()


@pytest.mark.root
def test_another_user_is_refused_even_if_the_file_modes_allow_access(child: Child, path: str) -> None:
    Path(path).parent.parent.chmod(0o755)
    Path(path).parent.chmod(0o755)
    Path(path).chmod(0o666)
    with as_another_user(), pytest.raises(ProbeError, match="This process belongs to another user"):
        ProbeClient(path, child.pid)


VIEWER = f"""
import sys
sys.path.insert(0, {str(REPOSITORY)!r})
from gputui.sources.probe import listing
client = listing.attach(int(sys.argv[1]))
client.subscribe(0.1)
client.ask_look("scan")
print("attached", flush=True)
while True:
    client.receive(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "terminated"])
def test_a_viewer_that_dies_leaves_no_connection(
    python: Python, child: Child, path: str, number: signal.Signals
) -> None:
    viewer = python.run([sys.executable, "-c", VIEWER, str(child.pid)])
    viewer.expect("attached")
    viewer.process.send_signal(number)
    viewer.ended()
    wait_until(lambda: _descriptors(child) == _descriptors_of(0), "closing the viewer's connection")
    child.attach().close()


READING = {"a viewer that is stopped": 0, "a viewer that reads a byte now and then": 1}


@pytest.mark.parametrize("name", READING)
def test_a_viewer_that_does_not_read_is_dropped_without_delaying_others(python: Python, name: str) -> None:
    child = python.start(IMPATIENT)
    path = child.expect("ready")
    with closing(connected(path)) as slow, child.attach() as other:
        slow.sendall(HELLO + frame({"type": "statistics", "interval_s": 0.1}))
        for _ in range(3000):  # every viewer gets every mark, and these are more than a socket buffers
            other.mark("x" * 200)
            assert other.receive(LIMIT_S)
        limit = Limit()
        while _descriptors(child) != _descriptors_of(1):
            limit.check(lambda: "the slow viewer is not dropped")
            slow.recv(READING[name], socket.MSG_DONTWAIT)
            assert other.statistics().devices == ()
            time.sleep(POLL_S)


def test_an_incomplete_request_times_out(python: Python) -> None:
    child = python.start(IMPATIENT)
    with closing(connected(child.expect("ready"))) as half:
        half.sendall(HELLO[:10])
        assert half.recv(65536) == b""
    child.attach().close()


def _descriptors(child: Child) -> int:
    return len(list(Path(f"/proc/{child.pid}/fd").iterdir()))


def _descriptors_of(viewers: int) -> int:
    return 3 + 3 + viewers  # the standard three, the listening socket and the waker's two sockets


def column(kind: str, *numbers: int) -> str:
    return b2a_base64(array(kind, numbers)).decode()


PART = {
    "type": "references",
    "addresses": column("Q", 16),
    "types": column("Q", 32),
    "counts": column("q", 1),
    "lengths": column("I", 2),
    "referents": column("Q", 48, 64),
    "next": [0, 1, 16, 2],
    "reason": "",
    "is_broken": False,
    "stop_ms": 1.5,
}
WRONG_PARTS = {
    "too few types": ({"types": ""}, "do not fit"),
    "too few referents": ({"referents": column("Q", 48)}, "do not fit"),
    "a tensor that is no object here": ({"tensors": column("I", 1)}, "do not fit"),
    "half a number": ({"addresses": "AAAA"}, "addresses is no column"),
    "a number for a column": ({"counts": 7}, "counts is no column"),
    "no reason": ({"reason": None}, "a text"),
    "a place of another form": ({"next": [1]}, "a list"),
}


def test_a_part_of_the_references_is_read() -> None:
    part = references_part(PART)
    assert [*part.addresses, *part.types, *part.counts, *part.referents] == [16, 32, 1, 48, 64]


@pytest.mark.parametrize("name", WRONG_PARTS)
def test_a_wrong_part_of_the_references_is_refused(name: str) -> None:
    fields, expected = WRONG_PARTS[name]
    with pytest.raises(DecodeError, match=expected):
        references_part({**PART, **fields})


WRONG = {
    "a missing field": (Greeting, {"pid": 1}, "Greeting.command"),
    "a text for a number": (Statistics, {"time": "1", "devices": [], "pinned_bytes": None}, "a number"),
    "a boolean for a number": (Statistics, {"time": True, "devices": [], "pinned_bytes": None}, "a number"),
    "infinity": (Statistics, {"time": float("inf"), "devices": [], "pinned_bytes": None}, "a number"),
    "a number too large": (Statistics, {"time": 1, "devices": [], "pinned_bytes": 2**70}, "an integer"),
    "an object for a list": (Statistics, {"time": 1, "devices": {}, "pinned_bytes": None}, "a list"),
    "an action of unknown name": (ActionResult, {"time": 1, "name": "eval", "took_s": 1, "devices": []}, "ActionName"),
    "a device without counters": (
        ActionResult,
        {"time": 1, "name": "collect", "took_s": 1, "devices": [{"device": 0}]},
        "ActionCounters.allocated_after_bytes",
    ),
    "a recorder of unknown name": (
        Statistics,
        {"time": 1, "devices": [], "pinned_bytes": None, "history": "somebody"},
        "Recorder",
    ),
    "a list for an object": (Look, [], "Look"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_message_that_does_not_fit_the_model_is_refused(name: str) -> None:
    cls, value, expected = WRONG[name]
    with pytest.raises(DecodeError, match=expected):
        decode(cls, value)


SEGMENT_COLUMNS = {"columns": ["device", "blocks"], "values": [[0, 0], [1, 2]]}
BLOCKS = {"columns": ["size_bytes"], "values": [[1, 2, 3]]}
TABLES = {
    "too few blocks": {**SEGMENT_COLUMNS, "blocks": {**BLOCKS, "values": [[1, 2]]}},
    "too many blocks": {**SEGMENT_COLUMNS, "blocks": {**BLOCKS, "values": [[1, 2, 3, 4]]}},
    "no blocks": SEGMENT_COLUMNS,
    "a negative number": {**SEGMENT_COLUMNS, "values": [[0, 0], [4, -1]], "blocks": BLOCKS},
    "a number that is a text": {**SEGMENT_COLUMNS, "values": [[0, 0], [1, "2"]], "blocks": BLOCKS},
    "columns of different lengths": {**SEGMENT_COLUMNS, "values": [[0], [1, 2]], "blocks": BLOCKS},
}


def test_segments_come_with_their_blocks() -> None:
    look = frames.decode(payload_of({**SEGMENT_COLUMNS, "blocks": BLOCKS}))
    assert look["map"]["segments"] == [
        {"device": 0, "blocks": [{"size_bytes": 1}]},
        {"device": 0, "blocks": [{"size_bytes": 2}, {"size_bytes": 3}]},
    ]


@pytest.mark.parametrize("name", TABLES)
def test_segments_that_do_not_fit_their_blocks_are_refused(name: str) -> None:
    with pytest.raises(frames.FrameError, match="rows do not fit its columns"):
        frames.decode(payload_of(TABLES[name]))


def payload_of(segments: dict[str, object]) -> bytes:
    return json.dumps({"type": "look", "map": {"segments": segments}}).encode()


def test_control_characters_in_texts_are_escaped() -> None:
    decoded = decode(
        Statistics, {"time": 1, "devices": [], "pinned_bytes": None, "problems": ["a\x1b[2Jb\n\u202ec" + "d" * 9999]}
    )
    assert decoded.problems[0].text.startswith(r"a\x1b[2Jb\n\u202ec")
    assert len(decoded.problems[0].text) == 4096
