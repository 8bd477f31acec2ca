"""Reading from another end that may send little at a time, for ever."""

from __future__ import annotations

import socket
import time


def received(connection: socket.socket, most_bytes: int, deadline: float) -> bytes:
    """What has come. Raises TimeoutError at the deadline, however little the other end sends at a time."""
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    connection.settimeout(left_s)
    return connection.recv(most_bytes)
