"""Bytes as a viewer sends them to a probe's socket."""

from __future__ import annotations

import json
import socket

from gputui.protocol import frames
from tests.attach.children import LIMIT_S

HELLO = frames.encode({"type": "hello", "protocol": frames.VERSION})


def connected(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(LIMIT_S)
    connection.connect(path)
    return connection


def frame(message: object) -> bytes:
    return frames.frame(json.dumps(message).encode())
