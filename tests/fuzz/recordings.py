"""Recordings whose chunks are whole and whose content is absurd, and recordings of which bytes were changed."""

from __future__ import annotations

import zlib
from random import Random
from typing import Any

from gputui.model.attached.analysis import DriverFacts
from gputui.model.attached.moment import Surroundings
from gputui.model.attached.target import Disconnect, DisconnectKind
from gputui.sources.files.recording import chunks
from gputui.sources.files.recording.chunks import FIRST_LINE, ChunkKind, write_chunk
from gputui.sources.files.recording.patch import difference
from gputui.sources.files.recording.records import LookTaken, plain
from tests.fuzz.false_probe import KINDS, mutated, true_messages
from tests.fuzz.mutations import FLOATS, INTEGERS, TEXTS, Mutator

PID = 4711
BEGAN = 1_763_640_000.0
STEPS = 60
"""The records of a recording, about as many as seconds."""
ENDLESS_BYTES = 16 * 1024**2
"""What the largest chunk inflates to; `tests/recording/test_file.py` has one beyond the limit."""

FACTS = DriverFacts(0, 80 << 30, 9 << 30, 8 << 30, 71 << 30, 40)
AROUND = Surroundings(BEGAN, ((0, FACTS), (1, FACTS)), 1 << 30, None, Disconnect(DisconnectKind.ERROR, TEXTS[2]))


class FalseRecording:
    """Writes one mutated recording; `data` is the file."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._mutator = Mutator(random)
        self._true = true_messages()
        self._chunks: list[bytes] = []
        self._looks = 0
        self._last: Any = None
        self._time = BEGAN
        self.data = self._changed(self._whole())

    def _whole(self) -> list[bytes]:
        self._record("recording", {"gputui": self._random.choice(TEXTS), "hostname": self._random.choice(TEXTS)}, 0)
        self._record("message", {**self._true["greeting"], "type": "greeting", "pid": PID}, PID)
        for _ in range(STEPS):
            self._time += self._random.choice((1.0, 1.0, 1.0, 0.0, -5.0, 3600.0))
            kind = self._random.choice(("look", "statistics", "mark", "greeting", "action_result", "endless"))
            if kind == "look":
                self._look()
            elif kind == "endless" and self._random.random() < 0.1:
                self._endless()
            elif kind in KINDS:
                self._record("message", self._mutated(kind))
            self._record("surroundings", self._around())
        return self._chunks

    def _around(self) -> dict[str, Any]:
        around = self._mutator.accepted(Surroundings, {"type": "", **plain(AROUND)})
        del around["type"]
        is_over = self._random.random() < 0.05
        time = self._time if self._random.random() < 0.9 else self._random.choice(FLOATS)
        return {**around, "time": time, **({} if is_over else {"ended": None})}

    def _mutated(self, kind: str) -> dict[str, Any]:
        return mutated(self._mutator, kind, {"type": kind, **self._true[kind]}, self._random)

    def _record(self, kind: str, content: dict[str, Any], header_pid: int = 0) -> None:
        record = [self._time, PID, kind, content]
        if self._random.random() < 0.03:
            record = self._mutator.scrambled(record)
        self._add(ChunkKind.RECORDS, header_pid, [record])

    def _look(self) -> None:
        look = self._mutated("look")
        self._looks += 1
        is_change = self._last is not None and self._random.random() < 0.5
        content = difference(self._last, look) if is_change else look
        if self._random.random() < 0.1:
            content = self._mutator.scrambled(content)
        number = self._looks if self._random.random() < 0.9 else self._random.choice((0, 1, 1 << 31))
        self._add(ChunkKind.CHANGED_LOOK if is_change else ChunkKind.LOOK, PID, content, number)
        self._last = look
        taken = LookTaken(self._looks, self._time, (), self._random.choice((0, self._looks, self._looks + 1, -1)))
        self._record("look_taken", {**plain(taken), "statistics": look["statistics"]})

    def _endless(self) -> None:
        """A chunk that inflates to a thousand times its size."""
        self._add(self._random.choice(list(ChunkKind)), PID, "x" * ENDLESS_BYTES, self._looks + 1)

    def _add(self, kind: ChunkKind, pid: int, content: object, number: int = 0) -> None:
        time = self._time if self._random.random() < 0.98 else float(self._random.choice(INTEGERS[:8]))
        try:
            self._chunks.append(write_chunk(kind, pid, time, content, number))
        except ValueError:  # a number that JSON does not have
            return

    def _changed(self, parts: list[bytes]) -> bytes:
        """Chunks left out, repeated and exchanged; sometimes bytes changed, and the end cut off."""
        for _ in range(self._random.choice((0, 0, 1, 5))):
            place = self._random.randrange(1, len(parts))
            parts[place : place + 1] = self._random.choice(([], [parts[place]] * 2, [parts[-1]], [_not_deflated(PID)]))
        data = bytearray(FIRST_LINE + b"".join(parts))
        for _ in range(self._random.choice((0, 0, 0, 1, 20))):
            data[self._random.randrange(len(FIRST_LINE), len(data))] = self._random.randrange(256)
        return bytes(data[: self._random.randrange(len(data))]) if self._random.random() < 0.1 else bytes(data)


def _not_deflated(pid: int) -> bytes:
    """A chunk with a correct checksum over what zlib cannot read."""
    payload = b"[" * 1000
    header = chunks._HEADER.pack(chunks.MAGIC, ChunkKind.RECORDS, pid, 0, BEGAN, len(payload))
    return header + chunks._SUM.pack(zlib.crc32(payload, zlib.crc32(header))) + payload
