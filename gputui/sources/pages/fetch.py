"""Fetches the page of metrics that a program on this machine offers, bounded in time and size, whoever answers."""

from __future__ import annotations

import socket
import time

from gputui.sources.received import received

_WITHIN_S = 2.0
_MOST_BYTES = 4 << 20
"""A page of dcgm-exporter for 8 GPUs with 7 instances each and all metrics has a tenth of it, vLLM's a fortieth."""
_REQUEST = b"GET /metrics HTTP/1.0\r\nHost: localhost\r\nAccept: text/plain\r\n\r\n"


def fetched(address: tuple[str, int]) -> str:
    """The answer with its HTTP head. Raises OSError where no whole answer comes in time, or it is too long."""
    deadline = time.monotonic() + _WITHIN_S
    data = bytearray()
    with socket.create_connection(address, _WITHIN_S) as connection:
        connection.sendall(_REQUEST)
        while len(data) <= _MOST_BYTES:
            part = received(connection, 65536, deadline)
            if not part:
                return data.decode("ascii", errors="replace")
            data += part
    message = "the page does not end"
    raise OSError(message)
