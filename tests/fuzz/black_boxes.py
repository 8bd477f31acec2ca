"""Black boxes whose messages are whole and absurd, and black boxes of which messages, streams or bytes were changed."""

from __future__ import annotations

import json
import zlib
from random import Random
from typing import Any

from gputui.model.attached.allocator import CallSite
from gputui.model.attached.failure import Failure
from gputui.model.attached.target import Ending
from gputui.protocol import frames
from gputui.protocol.black_boxes import FIRST_LINE
from gputui.sources.files.recording.records import plain
from tests.fuzz.false_probe import mutated, true_messages
from tests.fuzz.mutations import Mutator

ENDLESS_BYTES = 64 * 1024**2
"""What the largest message inflates to; `tests/blackbox/test_file.py` has one beyond the limit."""
STACK = tuple(CallSite("/home/ana/train.py", line, "forward") for line in range(1, 9))
FAILURE = Failure(
    time=1_763_640_000.0,
    device=0,
    requested_bytes=1 << 30,
    device_free_bytes=1 << 28,
    device_total_bytes=80 << 30,
    thread="MainThread",
    message="CUDA out of memory",
    stack=STACK,
    backward_node="MmBackward0",
    allowed_bytes=1 << 36,
    device_name="NVIDIA H100 80GB HBM3",
    hostname="node7",
)
ENDING = Ending(is_exit=True, error="OutOfMemoryError: CUDA out of memory")


def true_box_messages() -> list[dict[str, Any]]:
    """The messages of a black box as a probe writes it, in their order."""
    true = true_messages()
    failure = {"type": "failure", **plain(FAILURE)}
    return [
        *({"type": kind, **true[kind]} for kind in ("greeting", "statistics")),
        failure,
        {"type": "look", **true["look"]},
        {"type": "traces", **{name: true["step"][name] for name in ("traces", "frames", "stacks")}},
    ]


def packed(messages: list[dict[str, Any]]) -> bytes:
    """A stream of the file with these messages."""
    return zlib.compress(b"".join(frames.frame(json.dumps(message).encode()) for message in messages), 1)


class FalseBlackBox:
    """Makes one mutated black box; `data` is the file."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._mutator = Mutator(random)
        self.data = self._damaged(FIRST_LINE + b"".join(map(packed, self._streams())))

    def _streams(self) -> list[list[dict[str, Any]]]:
        messages = [self._mutated(message) for message in true_box_messages()]
        for _ in range(self._random.choice((0, 0, 0, 1, 3))):
            place = self._random.randrange(len(messages))
            other = self._random.choice(messages)
            messages[place : place + 1] = self._random.choice(([], [other], [other] * 3, [{"type": "unknown"}]))
        if self._random.random() < 0.05:
            messages.append({"type": "x" * ENDLESS_BYTES})
        ending = self._mutator.accepted(Ending, {"type": "ended", **plain(ENDING)})
        return [messages, [ending]] if self._random.random() < 0.5 else [messages]

    def _mutated(self, message: dict[str, Any]) -> dict[str, Any]:
        if self._random.random() < 0.04:
            return {**self._mutator.scrambled(message), "type": message["type"]}
        if message["type"] == "failure":
            return _possible(self._mutator.accepted(Failure, message))
        return mutated(self._mutator, message["type"], message, self._random)

    def _damaged(self, data: bytes) -> bytes:
        """Sometimes with changed bytes, cut off, or with more behind it."""
        changed = bytearray(data)
        for _ in range(self._random.choice((0, 0, 0, 0, 1, 20))):
            changed[self._random.randrange(len(FIRST_LINE), len(changed))] = self._random.randrange(256)
        end = self._random.choice((len(changed), len(changed), len(changed), self._random.randrange(len(changed))))
        return bytes(changed[:end]) + self._random.choice((b"", b"", b"", b"more", packed([{"type": "ended"}])))


def _possible(failure: dict[str, Any]) -> dict[str, Any]:
    """With sizes that are not negative: other failures are not shown."""
    sizes = ("requested_bytes", "device_free_bytes", "device_total_bytes")
    return {**failure, **{name: abs(failure[name]) for name in sizes}}
