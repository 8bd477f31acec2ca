"""A full-screen program on a pseudo-terminal of its own, measured from outside.

What it writes is counted as an SSH link would carry it; its processor time and memory, and those of all its children,
come from /proc. Queries that programs send to find out about the terminal are answered as xterm answers them, so that
none waits for an answer.
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
"""What a terminal sends for a key with a name; any other key is itself."""

CURSOR_KEYS = {"up": "A", "down": "B", "right": "C", "left": "D", "home": "H", "end": "F"}
"""The last letters of these: they come after ESC [, or after ESC O where the program asked for application keys."""

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
"""How many bytes a slow line takes at once."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process and its descendants have used: processor seconds so far, resident bytes now."""

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
        """`line_bytes_per_s` is how fast the line to the terminal is; None: no limit."""
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
        """What the program writes next, b"" where nothing comes within `limit_s`; EOFError when it has ended."""
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
        """Wait, for `limit_s` at most, until the line has carried what was read; how long it is busy."""
        busy_s = max(0.0, self._line_is_free_at - time.monotonic())
        time.sleep(min(busy_s, max(0.0, limit_s)))
        return busy_s

    def _take(self) -> bytes:
        try:
            data = os.read(self._fd, PACKET_BYTES if self._line_bytes_per_s else 1 << 16)
        except OSError:  # EIO: the last process with this terminal open has ended
            data = b""
        if not data:
            message = "the program has ended"
            raise EOFError(message)
        if self._line_bytes_per_s:
            self._line_is_free_at = time.monotonic() + len(data) / self._line_bytes_per_s
        return data

    def read_for(self, seconds: float) -> float:
        """Read for `seconds`, and return the most resident bytes seen meanwhile, looking five times a second."""
        end = time.monotonic() + seconds
        peak, next_look = 0, 0.0
        while (now := time.monotonic()) < end:
            if now >= next_look:
                peak, next_look = max(peak, self.usage().resident_bytes), now + 0.2
            self.read(min(end, next_look) - now)
        return peak

    def wait_for(self, text: re.Pattern[bytes], limit_s: float) -> float | None:
        """Seconds since the start until `text` was written, escape sequences aside; None where it never was."""
        end = time.monotonic() + limit_s
        while not text.search(_SEQUENCE.sub(b"", self._tail)):
            left = end - time.monotonic()
            if left <= 0:
                return None
            self.read(left)
        return time.monotonic() - self.started

    def press(self, key: str) -> float:
        """Send a key; the moment at which it was sent."""
        start = "\x1bO" if self._has_application_keys else "\x1b["
        text = start + CURSOR_KEYS[key] if key in CURSOR_KEYS else KEYS.get(key, key)
        os.write(self._fd, text.encode())
        return time.monotonic()

    def usage(self) -> Usage:
        """What the program and its descendants have used."""
        return usage_of(self._pid)

    def close(self, key: str = "q") -> int:
        """Press `key`, wait until the program ends and return its exit status; one that does not end is killed."""
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
    """What process `root` and its descendants have used; those that end meanwhile count as far as they were seen."""
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
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        try:
            for task in Path(f"/proc/{pid}/task").iterdir():
                todo += map(int, (task / "children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
