"""The readers under fuzz, each a function of bytes that raises where a reader does what it must not.

A reader may refuse with its own error. `TARGETS` names them, with the folder of `corpus/` that belongs to each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from gputui.model.target import Acted, Greeting, Look, Mark, Statistics
from gputui.probe.requests import RequestError, read_request
from gputui.protocol import frames
from gputui.sources.probe.decode import DecodeError, decode

CORPUS = Path(__file__).parent / "corpus"
MAX_SENTENCE = 300
MESSAGES = {"greeting": Greeting, "statistics": Statistics, "look": Look, "mark": Mark, "acted": Acted}


def read_requests(data: bytes) -> None:
    """What the probe does with what a viewer sends: at most it refuses, with a sentence it can send."""
    for payload in _payloads(data, frames.MAX_REQUEST_BYTES):
        said = _refusal(lambda payload=payload: read_request(frames.decode(payload)))
        frames.encode({"type": "refused", "reason": said})
        assert len(said) < MAX_SENTENCE


def read_replies(data: bytes) -> None:
    """What the viewer does with what a probe sends: what it lets in has no character that a terminal obeys."""
    for payload in _payloads(data, frames.MAX_REPLY_BYTES):
        said = _refusal(lambda payload=payload: _check_texts(_message(payload)))
        assert said.isprintable()
        assert len(said) < MAX_SENTENCE


def _message(payload: bytes) -> object:
    message = frames.decode(payload)
    kind = MESSAGES.get(str(message["type"]))
    return decode(kind, message) if kind else None


def _refusal(read: Callable[[], object]) -> str:
    """The sentence with which something was refused, "" where it was not."""
    try:
        read()
    except (frames.FrameError, RequestError, DecodeError) as error:
        return str(error)
    return ""


def _payloads(data: bytes, most: int) -> list[bytes]:
    """The payloads of a stream, which are the same whether it arrives whole or in pieces as long as its first byte.

    After a zero follows one payload without its header: what a fuzzer changes in there stays a frame.
    """
    step, stream = (data[0], data[1:]) if data else (1, b"")
    if step == 0:
        step, stream = 255, frames.frame(stream)
    whole = _fed([stream], most)
    parts = _fed([stream[start : start + step] for start in range(0, len(stream), step)], most)
    assert parts[: len(whole)] == whole  # where the whole is refused at once, the parts before it have arrived
    return parts


def _fed(parts: list[bytes], most: int) -> list[bytes]:
    unpacker, payloads = frames.Unpacker(most), []
    try:
        for part in parts:
            payloads += unpacker.feed(part)
    except frames.FrameError:
        pass
    return payloads


def _check_texts(value: object) -> None:
    if isinstance(value, str):
        assert value.isprintable()
    elif isinstance(value, (list, tuple)):
        for each in value:
            _check_texts(each)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            _check_texts(getattr(value, field.name))


TARGETS: dict[str, Callable[[bytes], None]] = {"requests": read_requests, "replies": read_replies}
