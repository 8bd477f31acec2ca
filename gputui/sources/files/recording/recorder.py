"""Records to a file what the feeds receive. A thread of its own writes, so no feed and no screen waits for the disk."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
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
from gputui.model.attached.moment import Surroundings
from gputui.sources.files.recording.chunks import FIRST_LINE, ChunkKind, write_chunk
from gputui.sources.files.recording.patch import difference
from gputui.sources.files.recording.records import plain
from gputui.sources.probe.recorder import Recorder

if TYPE_CHECKING:
    from gputui.sources.probe.client import ProbeClient

WRITE_EVERY_S = 0.5
"""How often records are written: a crash loses less than a second."""

WHOLE_EVERY = 16
"""One look of this many is written whole, the others as the difference from the look before."""

WAITING_AT_MOST = 2000
"""How many records can wait for a slow disk before the recording stops."""

LAST_WRITE_WITHIN_S = 5.0


_Noted = tuple[float, int, str, Any]
"""Time, PID, kind and content of a record, as `records` reads them."""


class FileRecorder(Recorder):
    """Writes a new recording; raises GputuiError if the file cannot be written or is not empty."""

    def __init__(self, path: str, hostname: str = "") -> None:
        """`hostname` is written as the host's name, "" for this machine's own."""
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
        self._note(0, "recording", {"gputui": __version__, "hostname": hostname or socket.gethostname()})
        self._thread = threading.Thread(target=self._run, name="gputui-recorder", daemon=True)
        self._thread.start()

    @property
    def is_recording(self) -> bool:  # type: ignore[override]
        """Whether it still records."""
        return not self.problem

    def listen_to(self, client: ProbeClient) -> None:
        """Record this probe's greeting and its messages from now on."""
        pid = client.greeting.pid
        self._note(pid, "message", {"type": "greeting", **asdict(client.greeting)})
        client.on_message = lambda message: self._note(pid, "message", message)

    def note_surroundings(self, pid: int, surroundings: Surroundings) -> None:
        """Record what the viewer reads about a process."""
        self._note(pid, "surroundings", plain(surroundings))

    def close(self) -> None:
        """Write what is left and end; waits `LAST_WRITE_WITHIN_S` at most."""
        self._is_closing.set()
        self._thread.join(LAST_WRITE_WITHIN_S)

    def _note(self, pid: int, kind: str, content: dict[str, Any]) -> None:
        if self.problem:
            return
        if self._queue.qsize() > WAITING_AT_MOST:
            self._stop(f"{self._path} cannot be written: the disk does not keep up")
            return
        self._queue.put((time.time(), pid, kind, content))

    def _run(self) -> None:
        is_last = False
        while not is_last and not self.problem:
            is_last = self._is_closing.wait(WRITE_EVERY_S)
            try:
                for chunk in self._chunks.of(self._waiting()):
                    self._write(chunk)
            except OSError as error:
                self._stop(f"{self._path} cannot be written: {error.strerror or error}")
            except (ValueError, RecursionError):
                self._stop("the program's probe sent what a recording cannot hold")
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
        self.problem = f"The recording has stopped: {reason}. What was recorded so far is kept."


class Chunks:
    """Turns records into chunks; remembers the last look of each process."""

    def __init__(self) -> None:
        self._numbers: Counter[int] = Counter()
        self._last: dict[int, tuple[int, dict[str, Any]]] = {}
        """By PID: the number of the look that was written last, and the look."""
        self._named: Counter[int] = Counter()
        """By PID: the number of the last look that had time for the tensors."""

    def of(self, noted: Iterable[_Noted]) -> Iterable[bytes]:
        """The chunks, in the records' order; a greeting has its own chunk, so that the headers name all processes.

        Raises ValueError for a message that no chunk can hold.
        """
        records: list[_Noted] = []
        for record in noted:
            when, pid, _, content = record
            message = content.get("type")
            if message in ("look", "greeting"):
                yield from _records(0, records)
                records = []
            if message == "greeting":
                yield from _records(pid, [record])
            elif message == "look":
                self._numbers[pid] += 1
                with suppress(ValueError):  # too large for a reader: later moments show the look before
                    yield self._look(pid, content)
                records.append((when, pid, "look_taken", self._looked(pid, content)))
            else:
                records.append(record)
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
        """The chunk of a look: one of `WHOLE_EVERY` is whole, and one whose predecessor is not in the file."""
        number = self._numbers[pid]
        since, last = self._last.get(pid, (0, look))
        if since != number - 1 or number % WHOLE_EVERY == 1:
            chunk = write_chunk(ChunkKind.LOOK, pid, look["time"], look, number)
        else:
            chunk = write_chunk(ChunkKind.CHANGED_LOOK, pid, look["time"], difference(last, look), number)
        self._last[pid] = number, look
        return chunk


def _records(pid: int, records: list[_Noted]) -> Iterable[bytes]:
    """The chunk of some records, or one for each where they are too large together; raises ValueError."""
    if not records:
        return
    try:
        yield write_chunk(ChunkKind.RECORDS, pid, records[0][0], records)
    except ValueError:
        if len(records) == 1:
            raise
        for record in records:
            yield from _records(pid, [record])


def _open_new(path: str) -> int:
    """A descriptor that appends to an empty file, locked for this recording; raises GputuiError."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        cause = f"{path} cannot be written: {error.strerror}."
        raise GputuiError(cause, "Name another file for --record.") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        cause = f"{path} cannot be written: it is a pipe, a socket or a device, and no file."
        raise GputuiError(cause, "Name another file for --record.")
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
        cause = f"{path} is not empty, and a recording overwrites nothing."
        raise GputuiError(cause, "Name another file for --record, or remove that one first.")
    return fd
