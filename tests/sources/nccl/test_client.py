"""NCCL's protocol against whatever may listen there instead: slow, endless, silent, or something else altogether."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from gputui.sources.listening import Listening
from gputui.sources.nccl import client
from gputui.sources.nccl.client import RasError, ask
from gputui.sources.nccl.decode import decoded
from tests.hanging import HANGS_S, NOT_WITHIN_S
from tests.sources.listening import listener
from tests.sources.nccl.job import answer, communicator, missing, rank

ANSWER = answer(communicator(rank(0, 10, AllReduce=7), gone=(missing(1, 11, "10.0.0.7", is_dead=True),)), timeouts=2)


def at(address: tuple[str, int]) -> Listening:
    return Listening(socket.AF_INET, *address, uid=0, inode=0)


def answering(*parts: bytes) -> Callable[[socket.socket], None]:
    """Answers the greeting, the format and the question with these, and closes."""

    def serve(connection: socket.socket) -> None:
        lines = connection.makefile("rb")
        for part in parts:
            lines.readline()
            connection.sendall(part)

    return serve


def test_an_answer_has_ranks_counts_and_who_is_missing():
    with listener(answering(b"SERVER PROTOCOL 2\n", b"OK\n", ANSWER)) as address:
        found = ask(at(address))
    (one,) = found.communicators
    assert (found.nccl_version, found.timeouts, one.size) == ("2.29.3", 2, 2)
    assert dict(one.ranks[0].counts)["AllReduce"] == one.ranks[0].total == 7
    assert (one.missing[0].place, one.missing[0].is_dead) == (("10.0.0.7", 11), True)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((b"HTTP/1.1 400 Bad Request\r\n",), "does not answer as NCCL does"),
        ((b"220 mail.example ESMTP\r\n",), "does not answer as NCCL does"),
        ((b"\0" * 1000,), "does not answer as NCCL does"),
        ((), "cannot be read: Connection reset|does not answer as NCCL does"),
        ((b"SERVER PROTOCOL 2\n", b"ERROR: Unknown command set format json\n"), "cannot answer in JSON"),
        ((b"SERVER PROTOCOL 2\n", b"OK\n", b""), "is not as NCCL documents it"),
        ((b"SERVER PROTOCOL 2\n", b"OK\n", ANSWER[: len(ANSWER) // 2]), "is not as NCCL documents it"),
        ((b"SERVER PROTOCOL 2\n", b"OK\n", b"[" * 100_000), "is not as NCCL documents it"),
        ((b"SERVER PROTOCOL 2\n", b"OK\n", b"[]"), "communicators is missing"),
    ],
    ids=["http", "mail", "zeros", "closes", "older", "nothing", "half", "nested", "a list"],
)
def test_what_is_not_an_answer_of_nccl_is_a_sentence(parts: tuple[bytes, ...], words: str):
    def serve(connection: socket.socket) -> None:
        with suppress(OSError):
            answering(*parts)(connection)

    with listener(serve) as address, pytest.raises(RasError, match=words):
        ask(at(address))


def changed(**values: Any) -> bytes:
    return answer({**communicator(rank(0, 10)), **values})


@pytest.mark.parametrize(
    "data",
    [
        changed(size="2"),
        changed(size=True),
        changed(size=1e400),
        changed(size=2**70),
        changed(ranks=None),
        changed(ranks=[7]),
        changed(ranks=[{**rank(0, 10), "status": {}}]),
        changed(ranks=[{**rank(0, 10), "collective_counts": {str(number): 1 for number in range(100)}}]),
        changed(ranks=[{**rank(0, 10), "pid": -(2**40)}]),
        b'{"communicators": [], "nccl_version": "2.29.3", "ras": {"timeouts_count": NaN}}',
    ],
)
def test_a_field_that_is_not_as_documented_refuses_the_answer(data: bytes):
    with pytest.raises(ValueError, match=r"is missing, or no|out of range|too many"):
        decoded(data)


def test_texts_cannot_move_the_cursor_and_are_short():
    found = decoded(answer(communicator(rank(0, 10, host="\x1b[2J" + "x" * 10_000))))
    host = found.communicators[0].ranks[0].place.host
    assert host.isprintable()
    assert len(host) < 300


def test_communicators_that_nccl_leaves_empty_while_others_are_made_are_left_out():
    empty = {**communicator(), "hash": "0x0"}
    assert len(decoded(answer(empty, communicator(rank(0, 10)))).communicators) == 1


@pytest.mark.parametrize("lines", [(), (b"SERVER PROTOCOL 2\n", b"OK\n")], ids=["from the start", "after the question"])
def test_whoever_says_nothing_is_waited_for_only_so_long(lines: tuple[bytes, ...]):
    over = threading.Event()

    def serve(connection: socket.socket) -> None:
        answering(*lines)(connection)
        over.wait(HANGS_S)

    with listener(serve) as address:
        with pytest.raises(RasError, match="does not answer in time"):
            ask(at(address), HANGS_S if lines else NOT_WITHIN_S, NOT_WITHIN_S)
        over.set()


def test_whoever_sends_a_byte_at_a_time_wins_no_time():
    def serve(connection: socket.socket) -> None:
        answering(b"SERVER PROTOCOL 2\n", b"OK\n")(connection)
        with suppress(OSError):
            while True:
                connection.sendall(b" ")

    with listener(serve) as address, pytest.raises(RasError, match="does not answer in time"):
        ask(at(address), HANGS_S, NOT_WITHIN_S)


def test_an_endless_answer_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(client, "MOST_BYTES", 1 << 20)

    def serve(connection: socket.socket) -> None:
        answering(b"SERVER PROTOCOL 2\n", b"OK\n")(connection)
        with suppress(OSError):
            while True:
                connection.sendall(b" " * 65536)

    with listener(serve) as address, pytest.raises(RasError, match="more than 1 MiB"):
        ask(at(address), HANGS_S, HANGS_S)


def test_a_connection_that_is_reset_is_a_sentence():
    def serve(connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with listener(serve) as address, pytest.raises(RasError, match=r"cannot be read|does not answer as NCCL"):
        ask(at(address))


def test_a_port_on_which_nobody_listens_is_a_sentence():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    with pytest.raises(RasError, match="NCCL's port cannot be read"):
        ask(at(address))
