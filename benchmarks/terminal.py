"""A full-screen program on its own pseudo-terminal, measured from outside.

Its output is counted in the bytes that an SSH connection would carry; its processor time and memory, including its
descendants, come from /proc. Queries about the terminal are answered as xterm would, so that no program waits for an
answer.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

KEYS = {
    "enter": "\r",
    "escape": "\x1b",
    "tab": "\t",
    "space": " ",
    "pageup": "\x1b[5~",
    "pagedown": "\x1b[6~",
}
"""What a terminal sends for a named key; any other key is sent as it is."""

CURSOR_KEYS = {"up": "A", "down": "B", "right": "C", "left": "D", "home": "H", "end": "F"}
"""The final letters of cursor keys, after ESC [, or after ESC O if the program asked for application keys."""

_ANSWERS = {
    b"\x1b[c": b"\x1b[?62;22c",
    b"\x1b[>c": b"\x1b[>0;276;0c",
    b"\x1b[6n": b"\x1b[1;1R",
    b"\x1b[?2026$p": b"\x1b[?2026;2$y",
    b"\x1b[?2048$p": b"\x1b[?2048;0$y",
    b"\x1b]10;?": b"\x1b]10;rgb:e0e0/e0e0/e0e0\x1b\\",
    b"\x1b]11;?": b"\x1b]11;rgb:1010/1010/1010\x1b\\",
}
_SEQUENCE = re.compile(rb"\x1b(\[[0-9;:<=>?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[()][A-Z0-9]|[=>78])")
_CURSOR_KEY_MODE = re.compile(rb"\x1b\[\?1(?:;\d+)*([hl])")
_TAIL_BYTES = 1 << 16
_QUIT_LIMIT_S = 5.0

PACKET_BYTES = 256
"""The chunk in which a slow line transfers bytes."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of a process and its descendants: processor seconds so far, resident bytes now."""

    cpu_s: float
    resident_bytes: int


class Terminal:
    """`command` on a terminal of `columns` x `lines`; a context manager that ends it."""

    def __init__(
        self,
        command: Sequence[str],
        columns: int,
        lines: int,
        environment: Mapping[str, str] | None = None,
        line_bytes_per_s: int | None = None,
    ) -> None:
        """`line_bytes_per_s` limits the line to the terminal; None means no limit."""
        self._line_bytes_per_s = line_bytes_per_s
        self._line_is_free_at = 0.0
        self.started = time.monotonic()
        self.written_bytes = 0
        self.first_output_s: float | None = None
        self._tail = b""
        self._has_application_keys = False
        self._exit_status: int | None = None
        size = struct.pack("HHHH", lines, columns, 0, 0)
        surroundings = {**(os.environ if environment is None else environment), "TERM": "xterm-256color"}
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            fcntl.ioctl(1, termios.TIOCSWINSZ, size)
            try:
                os.execvpe(command[0], list(command), surroundings)
            finally:
                os._exit(127)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, size)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self, limit_s: float) -> bytes:
        """The program's next output, or b"" if there is none within `limit_s`; EOFError if it has ended."""
        limit_s -= self._wait_for_line(limit_s)
        if limit_s < 0 or not select.select([self._fd], [], [], limit_s)[0]:
            return b""
        data = self._take()
        for question, answer in _ANSWERS.items():
            if question in data:
                os.write(self._fd, answer)
        if modes := _CURSOR_KEY_MODE.findall(data):
            self._has_application_keys = modes[-1] == b"h"
        if self.first_output_s is None:
            self.first_output_s = time.monotonic() - self.started
        self.written_bytes += len(data)
        self._tail = (self._tail + data)[-_TAIL_BYTES:]
        return data

    def _wait_for_line(self, limit_s: float) -> float:
        """Wait up to `limit_s` until the line has carried the last output; return how long it stays busy."""
        busy_s = max(0.0, self._line_is_free_at - time.monotonic())
        time.sleep(min(busy_s, max(0.0, limit_s)))
        return busy_s

    def _take(self) -> bytes:
        try:
            data = os.read(self._fd, PACKET_BYTES if self._line_bytes_per_s else 1 << 16)
        except OSError:  # EIO: no process has this terminal open any more
            data = b""
        if not data:
            message = "the program has ended"
            raise EOFError(message)
        if self._line_bytes_per_s:
            self._line_is_free_at = time.monotonic() + len(data) / self._line_bytes_per_s
        return data

    def read_for(self, seconds: float) -> float:
        """Read for `seconds`, and return the peak of resident bytes, sampled five times a second."""
        end = time.monotonic() + seconds
        peak, next_look = 0, 0.0
        while (now := time.monotonic()) < end:
            if now >= next_look:
                peak, next_look = max(peak, self.usage().resident_bytes), now + 0.2
            self.read(min(end, next_look) - now)
        return peak

    def wait_for(self, text: re.Pattern[bytes], limit_s: float) -> float | None:
        """Seconds from the start until `text` was written, ignoring escape sequences; None if it never was."""
        end = time.monotonic() + limit_s
        while not text.search(_SEQUENCE.sub(b"", self._tail)):
            left = end - time.monotonic()
            if left <= 0:
                return None
            self.read(left)
        return time.monotonic() - self.started

    def press(self, key: str) -> float:
        """Send a key; return the time at which it was sent."""
        start = "\x1bO" if self._has_application_keys else "\x1b["
        text = start + CURSOR_KEYS[key] if key in CURSOR_KEYS else KEYS.get(key, key)
        os.write(self._fd, text.encode())
        return time.monotonic()

    def usage(self) -> Usage:
        """The usage of the program and its descendants."""
        return usage_of(self._pid)

    def close(self, key: str = "q") -> int:
        """Press `key`, wait for the program to end (or kill it), and return its exit status."""
        if self._exit_status is not None:
            return self._exit_status
        end = time.monotonic() + _QUIT_LIMIT_S
        try:
            self.press(key)
            while time.monotonic() < end:
                self.read(end - time.monotonic())
        except (EOFError, OSError):
            end = time.monotonic() + _QUIT_LIMIT_S
        self._exit_status = self._reap(end)
        os.close(self._fd)
        return self._exit_status

    def _reap(self, end: float) -> int:
        while time.monotonic() < end:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        os.kill(self._pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def usage_of(root: int) -> Usage:
    """The usage of process `root` and its descendants; one that ends during the call may be missing."""
    ticks = pages = 0
    for pid in _descendants(root):
        try:
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        ticks += sum(int(field) for field in fields[11:15])  # own and waited-for children's, user and system
        pages += int(fields[21])
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE"))


def _descendants(root: int) -> list[int]:
    descendants, todo = [], [root]
    while todo:
        pid = todo.pop()
        descendants.append(pid)
        try:
            for task in Path(f"/proc/{pid}/task").iterdir():
                todo += map(int, (task / "children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return descendants
