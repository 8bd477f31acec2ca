"""Keeps in a file what the feeds hear. A thread of its own writes: no feed and no screen waits for a disk."""

from __future__ import annotations

import fcntl
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from gputui import __version__
from gputui.errors import GputuiError
from gputui.model.moment import Surroundings
from gputui.sources.recording.chunks import FIRST_LINE, ChunkKind, write_chunk
from gputui.sources.recording.patch import difference
from gputui.sources.recording.records import plain

if TYPE_CHECKING:
    from gputui.sources.probe.client import ProbeClient

WRITE_EVERY_S = 0.5
"""So often what has come is written: a crash loses less than a second."""

WHOLE_EVERY = 16
"""Of so many looks one is kept whole, the others as what differs from the one before."""

WAITING_AT_MOST = 2000
"""So many records may wait for a disk that does not answer; then the recording stops."""

LAST_WRITE_WITHIN_S = 5.0


class Keeper:
    """Keeps nothing: what a feed talks to where nobody asked for a recording. Methods may be called in any thread."""

    problem = ""
    """Why the recording has stopped, "" while it goes on."""

    is_recording = False

    def listen_to(self, client: ProbeClient) -> None:
        """Keep what this probe says from now on, and who it is."""

    def note_surroundings(self, pid: int, around: Surroundings) -> None:
        """Keep what this side knows of a process: a moment of a replay is made of this and all before it."""

    def close(self) -> None:
        """Write what is left and end."""


NO_KEEPER = Keeper()

_Noted = tuple[float, int, str, Any]
"""Time, PID, kind and content, as `records` reads them."""


class FileRecorder(Keeper):
    """Writes a new recording; raises GputuiError where the file cannot be had or holds something already."""

    def __init__(self, path: str, hostname: str = "") -> None:
        """`hostname` is written instead of this machine's."""
        self._path = path
        self._fd = _open_new(path)
        self._chunks = Chunks()
        self._queue: SimpleQueue[_Noted] = SimpleQueue()
        self._is_closing = threading.Event()
        try:
            os.write(self._fd, FIRST_LINE)
        except OSError as error:
            os.close(self._fd)
            cause = f"{path} cannot be written: {error.strerror}."
            raise GputuiError(cause) from None
        self._note(0, "about", {"gputui": __version__, "hostname": hostname or socket.gethostname()})
        self._thread = threading.Thread(target=self._run, name="gputui-recorder", daemon=True)
        self._thread.start()

    @property
    def is_recording(self) -> bool:  # type: ignore[override]
        """Whether what comes now is kept."""
        return not self.problem

    def listen_to(self, client: ProbeClient) -> None:
        """Keep what this probe says from now on, and who it is."""
        pid = client.greeting.pid
        self._note(pid, "heard", {"type": "greeting", **asdict(client.greeting)})
        client.on_message = lambda message: self._note(pid, "heard", message)

    def note_surroundings(self, pid: int, around: Surroundings) -> None:
        """Keep what this side knows of a process."""
        self._note(pid, "around", plain(around))

    def close(self) -> None:
        """Write what is left and end; a disk that does not answer is not waited for long."""
        self._is_closing.set()
        self._thread.join(LAST_WRITE_WITHIN_S)

    def _note(self, pid: int, kind: str, content: dict[str, Any]) -> None:
        if self.problem:
            return
        if self._queue.qsize() > WAITING_AT_MOST:
            self._stop("the disk does not keep up")
            return
        self._queue.put((time.time(), pid, kind, content))

    def _run(self) -> None:
        is_last = False
        while not is_last and not self.problem:
            is_last = self._is_closing.wait(WRITE_EVERY_S)
            try:
                self._write(b"".join(self._chunks.of(self._waiting())))
            except OSError as error:
                self._stop(error.strerror or str(error))
        os.close(self._fd)

    def _waiting(self) -> Iterable[_Noted]:
        with suppress(Empty):
            while True:
                yield self._queue.get_nowait()

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def _stop(self, reason: str) -> None:
        self.problem = (
            f"The recording has stopped: {self._path} cannot be written: {reason}. What it holds until now stays."
        )


class Chunks:
    """Turns what was noted into chunks; remembers the last look of each process."""

    def __init__(self) -> None:
        self._numbers: Counter[int] = Counter()
        self._last: dict[int, tuple[int, dict[str, Any]]] = {}
        """Of each process the number of the look written last, and the look."""
        self._named: Counter[int] = Counter()
        """Of each process the number of the last look that had time for the tensors."""

    def of(self, noted: Iterable[_Noted]) -> Iterable[bytes]:
        """In the order in which they came; a greeting stands alone, so that headers tell all processes."""
        records: list[_Noted] = []
        for each in noted:
            when, pid, _, content = each
            message = content.get("type")
            if message in ("look", "greeting"):
                yield from _records(0, records)
                records = []
            if message == "greeting":
                yield from _records(pid, [each])
            elif message == "look":
                self._numbers[pid] += 1
                with suppress(ValueError):  # too large for a reader: the moments after it show the look before
                    yield self._look(pid, content)
                records.append((when, pid, "looked", self._looked(pid, content)))
            else:
                records.append(each)
        yield from _records(0, records)

    def _looked(self, pid: int, look: dict[str, Any]) -> dict[str, Any]:
        if look["inventory"]:
            self._named[pid] = self._numbers[pid]
        return {
            "number": self._numbers[pid],
            "time": look["time"],
            "statistics": look["statistics"],
            "named": self._named[pid],
        }

    def _look(self, pid: int, look: dict[str, Any]) -> bytes:
        """Whole now and then, and where the look before it is not in the file."""
        number = self._numbers[pid]
        since, last = self._last.get(pid, (0, look))
        if since != number - 1 or number % WHOLE_EVERY == 1:
            chunk = write_chunk(ChunkKind.LOOK, pid, look["time"], look, number)
        else:
            chunk = write_chunk(ChunkKind.CHANGED_LOOK, pid, look["time"], difference(last, look), number)
        self._last[pid] = number, look
        return chunk


def _records(pid: int, records: list[_Noted]) -> Iterable[bytes]:
    if records:
        yield write_chunk(ChunkKind.RECORDS, pid, records[0][0], records)


def _open_new(path: str) -> int:
    """A descriptor that appends to a file of our own which is empty; raises GputuiError."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        cause = f"{path} cannot be written: {error.strerror}."
        raise GputuiError(cause, "Name another file for --record.") from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        cause = f"{path} is being written by another recording."
        raise GputuiError(cause, "Name another file for --record.") from None
    except OSError:
        pass  # a file system without locks
    if os.fstat(fd).st_size:
        os.close(fd)
        cause = f"{path} holds something already, and a recording overwrites nothing."
        raise GputuiError(cause, "Name another file for --record, or remove that one first.")
    return fd
