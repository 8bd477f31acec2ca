"""Reads from a socket whose other end may go on sending a little at a time for ever."""

from __future__ import annotations

import socket
import time


def received(connection: socket.socket, most_bytes: int, deadline: float) -> bytes:
    """The next bytes, b"" at the end. Raises TimeoutError at the deadline (monotonic clock)."""
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    connection.settimeout(left_s)
    return connection.recv(most_bytes)
