"""A program on a pseudo-terminal, run as a user or a hostile environment would run it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pyte

from tests.forkserver import COMMAND, REPOSITORY, Forked
from tests.hanging import HANGS_S, Limit, wait_until

QUIET_S = 0.05
"""A pause in which a program that has something to do does it, or is seen to wait for a processor."""

KITTY = re.compile(rb"\x1b\[([><=])[0-9;]*u")
MODES = re.compile(rb"\x1b\[\?([0-9;]+)([hl])")
QUERIES = re.compile(rb"\x1b\[\?([0-9]+)\$p")
UNFINISHED = re.compile(rb"\x1b(\[[0-9;?<>=]*)?$")
ON_AT_FIRST = frozenset({7, 25})
"""The private modes that a terminal starts with: line wrap and a visible cursor."""

OWN_TERMINAL = 'exec <>"$0" >&0 2>&0; eval "$1"'
"""For sh: the terminal that a session leader without one opens becomes its controlling terminal."""


def read_if_there(path: Path) -> str:
    """The contents of a file in /proc, or "" if the process has ended."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


GPUTUI = f"{shlex.quote(sys.executable)} -m gputui"
IMPORTED = ("gputui.cli", "gputui.commands.machine.monitor", "gputui.commands.attach.attach", "gputui.ui.app")
READ_AT_THE_START = ("LANG", "LC_", "LD_PRELOAD", "PYTHON")
"""How variables begin that an interpreter reads once."""


def _started(command: str, environment: Mapping[str, str], terminal: str) -> subprocess.Popen[bytes] | Forked:
    """The command on this terminal: forked after its imports where it is gputui alone, in a usual environment."""
    words = command.removeprefix(f"exec {GPUTUI}")
    usual = {"LANG": "C.UTF-8", "PYTHONPATH": str(REPOSITORY)}
    read = {name: value for name, value in environment.items() if value and name.startswith(READ_AT_THE_START)}
    if words != command and not re.search(r"[<>|&;$]", words) and read == usual:
        forked = [str(COMMAND), *shlex.split(words)]
        with Path(os.devnull).open("wb") as unused:
            folder = Path.cwd()
            return Forked(
                sys.executable, forked, IMPORTED, env=environment, cwd=folder, stderr=unused, terminal=terminal
            )
    return subprocess.Popen(
        ["/bin/sh", "-c", OWN_TERMINAL, terminal, command],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


class PtySession:
    """A shell command on its own terminal; `screen` is what the user sees, `output` every byte received.

    The terminal is read only inside the wait methods. With `answers` it replies to queries as a modern terminal does.
    """

    def __init__(
        self, command: str, environment: Mapping[str, str], size: tuple[int, int] = (80, 24), *, answers: bool = False
    ) -> None:
        self.master, self.slave = pty.openpty()
        self.output = b""
        self.answers = answers
        self.screen = pyte.Screen(*(max(1, cells) for cells in size))
        self._stream = pyte.ByteStream(self.screen)
        self._unfed = b""
        self.set_size(*size)
        self.settings_before = termios.tcgetattr(self.slave)
        self.process = _started(command, environment, os.ttyname(self.slave))

    def set_size(self, columns: int, rows: int) -> None:
        """Resize the terminal; the foreground process group gets SIGWINCH."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(max(1, rows), max(1, columns))

    def send(self, keys: str | bytes) -> None:
        """Type these keys."""
        os.write(self.master, keys.encode() if isinstance(keys, str) else keys)

    def pump(self, wait_s: float = 0.05, most: int = 65536) -> int:
        """Read up to `most` bytes that are available; returns how many were read."""
        if not select.select([self.master], [], [], wait_s)[0]:
            return 0
        data = os.read(self.master, most)
        self.output += data
        self._answer(data)
        data = KITTY.sub(b"", self._unfed + data)
        cut = match.start() if (match := UNFINISHED.search(data)) else len(data)
        self._unfed = data[cut:]
        self._stream.feed(data[:cut])
        return len(data)

    def wait(self, condition: Callable[[], bool], what: str = "") -> None:
        """Read until `condition` holds; fails with the screen if it never does."""
        limit = Limit()
        while not condition():
            is_over = self.process.poll() is not None
            if not self.pump() and not condition():
                assert not is_over, f"The program has ended without {what or condition}; the screen:\n{self.text}"
                limit.check(lambda: f"no {what or condition}; the screen:\n{self.text}")

    def wait_for(self, words: str) -> None:
        """Read until the screen shows `words`."""
        self.wait(lambda: words in self.text, repr(words))

    def wait_without(self, words: str) -> None:
        """Read until the screen does not show `words`."""
        self.wait(lambda: words not in self.text, f"the end of {words!r}")

    def wait_for_silence(self, times: int = 4) -> None:
        """Read until nothing has come that many times in a row, while the program has read all keys and is idle."""
        quiet = 0

        def is_silent() -> bool:
            nonlocal quiet
            quiet = 0 if self.pump(QUIET_S) or not self._is_idle() else quiet + 1
            return quiet >= times

        self.wait(is_silent, "silence")

    def _is_running(self) -> bool:
        """Whether a thread of the program is running or ready to run."""
        stats = (read_if_there(path) for path in Path(f"/proc/{self.process.pid}/task").glob("*/stat"))
        return any(stat.rpartition(") ")[2].startswith("R") for stat in stats)

    def wait_until_idle(self, times: int = 4) -> None:
        """Wait, without reading, until the program has read all typed keys and is idle that many times in a row."""
        quiet = 0

        def is_quiet() -> bool:
            nonlocal quiet
            time.sleep(QUIET_S)
            quiet = quiet + 1 if self._is_idle() else 0
            return quiet >= times

        wait_until(is_quiet, lambda: "the program does not become idle")

    def _is_idle(self) -> bool:
        """Whether the program has read what was typed, and no thread of it runs or waits for a processor."""
        return not self._typed_and_not_read() and not self._is_running()

    def _typed_and_not_read(self) -> int:
        return struct.unpack("i", fcntl.ioctl(self.slave, termios.FIONREAD, b"\0\0\0\0"))[0]

    def end(self) -> int:
        """Read until the program has ended; returns its exit status as a shell reports it."""
        self.wait(lambda: self.process.poll() is not None, "the end of the program")
        while self.pump(0.0):
            continue
        return self.exit_status()

    def exit_status(self) -> int:
        """Wait, without reading, until the program has ended; returns its exit status as a shell reports it."""
        status = self.process.wait(HANGS_S)
        return 128 - status if status < 0 else status

    def kill(self, number: signal.Signals) -> None:
        """Send a signal to the program."""
        self.process.send_signal(number)

    @property
    def text(self) -> str:
        """The screen, line by line."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    @property
    def words(self) -> str:
        """The screen as one line of text, with wrapped sentences joined."""
        return " ".join(self.text.split())

    @property
    def modes(self) -> dict[int, bool]:
        """The private modes that the program has set or reset, and whether each is on."""
        modes: dict[int, bool] = {}
        for numbers, letter in MODES.findall(self.output):
            modes.update((int(number), letter == b"h") for number in numbers.split(b";"))
        return modes

    def left_behind(self) -> list[str]:
        """What differs from the terminal's state before the program started, as sentences."""
        wrong = [f"mode {mode} is {on}" for mode, on in self.modes.items() if on != (mode in ON_AT_FIRST)]
        directions = KITTY.findall(self.output)
        if directions.count(b">") != directions.count(b"<"):
            wrong.append("the keyboard protocol was not restored")
        if termios.tcgetattr(self.slave) != self.settings_before:
            wrong.append("the terminal's settings (stty) have changed")
        return wrong

    def _answer(self, data: bytes) -> None:
        if self.answers:
            for mode in QUERIES.findall(data):
                self.send(b"\x1b[?%b;2$y" % mode)

    def hang_up(self) -> None:
        """Close the terminal, as a broken connection does."""
        os.close(self.slave)
        os.close(self.master)
        self.master = self.slave = -1

    def close(self) -> None:
        """Kill the whole process group if the program still runs, and close the terminal."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for end in (self.master, self.slave):
            if end >= 0:
                os.close(end)
