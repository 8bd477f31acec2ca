"""Version 2 of RAS's protocol of lines, and one question: the state of all ranks, as JSON (NCCL 2.28.7 and newer).

After `SET FORMAT json`, NCCL writes what its ranks have reported, without its own reasoning, in which the known faults
were.
"""

from __future__ import annotations

import re
import socket
import time

from gputui.errors import GputuiError
from gputui.model.collectives import JobAnswer
from gputui.sources.listening import Listening
from gputui.sources.nccl.decode import decoded
from gputui.sources.received import received

CONNECT_WITHIN_S = 1.0
LINE_WITHIN_S = 3.0
ANSWER_WITHIN_S = 15.0
"""NCCL waits 5 s for ranks that do not answer, and 5 s more for all of them together."""
MOST_BYTES = 32 << 20
"""A rank is about 600 bytes: 50,000 ranks in all communicators together."""
_LONGEST_LINE = 256
_GREETING = re.compile(rb"SERVER PROTOCOL \d{1,9}", re.IGNORECASE)


class RasError(GputuiError):
    """NCCL's port gave no usable answer."""


def ask(place: Listening, line_within_s: float = LINE_WITHIN_S, answer_within_s: float = ANSWER_WITHIN_S) -> JobAnswer:
    """Ask once. Raises `RasError` where no whole answer comes in time, or one that NCCL does not give."""
    try:
        with socket.socket(place.family, socket.SOCK_STREAM) as connection:
            connection.settimeout(CONNECT_WITHIN_S)
            connection.connect(place.target)
            if not _GREETING.fullmatch(_exchange(connection, b"CLIENT PROTOCOL 2\n", line_within_s)):
                raise RasError("What listens on NCCL's port does not answer as NCCL does.")
            if _exchange(connection, b"SET FORMAT json\n", line_within_s).upper() != b"OK":
                raise RasError("NCCL there cannot answer in JSON, which it can since 2.28.7.")
            connection.sendall(b"STATUS\n")
            return decoded(_rest(connection, answer_within_s))
    except TimeoutError:
        raise RasError("NCCL does not answer in time.", "Ask again: a rank that hangs delays the answer.") from None
    except OSError as error:
        raise RasError(f"NCCL's port cannot be read: {error.strerror or error}.") from None
    except ValueError as error:
        raise RasError(f"NCCL's answer is not as NCCL documents it: {error}.") from None


def _exchange(connection: socket.socket, line: bytes, within_s: float) -> bytes:
    """Send a line and return the answering line without its end. Raises OSError, and `RasError` for too long a line."""
    connection.sendall(line)
    deadline = time.monotonic() + within_s
    answer = b""
    while len(answer) <= _LONGEST_LINE:
        part = received(connection, 1, deadline)  # not more: what follows the line belongs to the next question
        if part in {b"", b"\n"}:
            return answer.rstrip(b"\r")
        answer += part
    raise RasError("What listens on NCCL's port does not answer as NCCL does.")


def _rest(connection: socket.socket, within_s: float) -> bytes:
    deadline = time.monotonic() + within_s
    data = bytearray()
    while len(data) <= MOST_BYTES:
        part = received(connection, 65536, deadline)
        if not part:
            return bytes(data)
        data += part
    raise RasError(f"NCCL's answer has more than {MOST_BYTES >> 20} MiB, and is not read.")
