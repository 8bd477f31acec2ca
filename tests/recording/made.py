"""Recordings made without a program: what a feed would record, and the moments that a screen would have seen live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from gputui.explain.moment.probe_state import ProbeState, after, moment_among
from gputui.model.attached.analysis import DriverFacts
from gputui.model.attached.moment import Surroundings, TargetMoment
from gputui.model.attached.target import Cost, Disconnect, DisconnectKind, Garbage, Greeting, Look, Mark, Statistics
from gputui.model.attached.tensors import Category, Inventory, Storage
from gputui.model.reading import Absent
from gputui.sources.files.recording.chunks import FIRST_LINE
from gputui.sources.files.recording.recorder import Chunks
from gputui.sources.files.recording.records import plain
from gputui.sources.probe.messages import message_of
from gputui.units import GIB, MIB
from tests.explain.maps import BASE, layout, segment, statistics
from tests.explain.moments import GREETING
from tests.explain.named import named

BEGAN = 1_763_640_000.0
FACTS = DriverFacts(0, 80 * GIB, 9 * GIB, 8 * GIB, 71 * GIB, 40)


class Made:
    """A recording that grows chunk by chunk; `moments` is what a screen would have seen of each process."""

    def __init__(self, *greetings: Greeting) -> None:
        greetings = greetings or (GREETING,)
        self._chunks = Chunks()
        self._states = {greeting.pid: ProbeState(greeting) for greeting in greetings}
        self.chunks: list[bytes] = []
        self.moments: dict[int, list[TargetMoment]] = {greeting.pid: [] for greeting in greetings}
        self.note(BEGAN, 0, "recording", {"gputui": "0.1", "hostname": "node7"})
        for greeting in greetings:
            self.note(BEGAN, greeting.pid, "message", {"type": "greeting", **asdict(greeting)})

    @property
    def data(self) -> bytes:
        """The content of the file."""
        return FIRST_LINE + b"".join(self.chunks)

    def write(self, path: Path) -> Path:
        """Write the file, and return its path."""
        path.write_bytes(self.data)
        return path

    def note(self, when: float, pid: int, kind: str, content: dict[str, Any]) -> None:
        """Add one record, in a new chunk."""
        self.chunks += self._chunks.of([(when, pid, kind, content)])

    def hear(self, when: float, message: Statistics | Look | Mark | Garbage, pid: int = GREETING.pid) -> None:
        """Add a message of the probe."""
        content = {"type": type(message).__name__.lower(), **plain(message)}
        self.note(when, pid, "message", content)
        assert message_of(content) == message
        self._states[pid] = after(self._states[pid], message)

    def deliver(self, when: float, pid: int = GREETING.pid, *, ended: Disconnect | None = None) -> None:
        """Add a moment, as a feed does."""
        around = Surroundings(when, ((0, FACTS),), Absent("the process has ended") if ended else 2 * GIB, None, ended)
        self.note(when, pid, "surroundings", plain(around))
        self.moments[pid].append(moment_among(self._states[pid], around))


def look_at(time: float, live: Sequence[int]) -> Look:
    """A look at one segment for each size in MiB, half of it a tensor."""
    segments = [segment(("live", mib / 2), ("free", mib / 2), address=BASE + n * GIB) for n, mib in enumerate(live)]
    storages = tuple(
        Storage(
            0, part.address, part.blocks[0].size_bytes, Category.OTHER, named(f"kept[{n}]"), "Tensor", (n,), "float32"
        )
        for n, part in enumerate(segments)
    )
    made = layout(*segments)
    counted = statistics(made, generation=int(time * 1000) % 10**9)
    return Look(
        time, (counted,), made.settings, made, Inventory(storages, "walk", is_of_one_moment=True), Cost(1.0, 2.0)
    )


def counters_at(time: float, mib: int) -> Statistics:
    """Counters of one device between two looks."""
    counted = statistics(layout(segment(("live", mib))), generation=int(time * 1000) % 10**9)
    return Statistics(time, (counted,), pinned_bytes=4 * MIB)


def job(seconds: int, *greetings: Greeting, look_every_s: int = 2, mark_every_s: int = 5, ends: bool = True) -> Made:
    """A job that allocates another segment before every look, sets marks, and ends with an error if `ends`."""
    made = Made(*greetings)
    for second in range(1, seconds + 1):
        at = BEGAN + second
        for pid in made.moments:
            made.hear(at, counters_at(at, 10 * second), pid)
            made.deliver(at + 0.01, pid)
            if second % mark_every_s == 0:
                made.hear(at + 0.1, Mark(at + 0.1, f"second {second}"), pid)
            if second % look_every_s == 0:
                made.hear(at + 0.2, look_at(at + 0.2, [20] * (1 + second // look_every_s)), pid)
                made.deliver(at + 0.21, pid)
    if ends:
        for pid in made.moments:
            made.deliver(BEGAN + seconds + 0.5, pid, ended=Disconnect(DisconnectKind.ERROR, "OutOfMemoryError"))
    return made


def ranks(count: int) -> list[Greeting]:
    """The processes of a distributed job."""
    return [replace(GREETING, pid=100 + rank, rank=rank, world_size=count) for rank in range(count)]
