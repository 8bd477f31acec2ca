"""Python 3.14's own way in, PEP 768: a request in the main thread's state to run a script, without stopping anything.

The interpreter's debug offsets say where everything is, so gputui may run in another version. The request is a path. It
names a file in memory (memfd) of this process where the program can open that, otherwise a file in its /tmp or /dev/shm
that only its user can read, which is removed when the request has ended.

If a signal handler of the program raises an exception in the script, Python prints the exception and drops the script.
Such a request is made again.
"""

from __future__ import annotations

import os
import struct
import time
from dataclasses import dataclass

from gputui.inject.process.images import Memory
from gputui.inject.process.process_facts import Facts
from gputui.inject.ways import payload
from gputui.inject.ways.script_file import ScriptFile

_WORDS = {
    (3, 14): {
        "interpreters_head": 5,
        "interpreter_next": 8,
        "threads_head": 9,
        "threads_main": 10,
        "thread_next": 24,
        "native_thread_id": 28,
        "eval_breaker": 89,
        "support": 90,
        "enabled": 91,
        "pending": 92,
        "path": 93,
        "path_size": 94,
    }
}
"""The word of each needed offset in `_Py_DebugOffsets` (Include/internal/pycore_debug_offsets.h)."""
_PLEASE_STOP = 1 << 5
"""The bit of a thread's eval breaker that has it look for a request."""
_LOST_AFTER_S = 2.0
"""How long the thread that the script has started may take to begin; doubled with each further request."""
_MOST_REQUESTS = 6
_WITHDRAWN_S = 0.3
"""How long the emptied files of a request are kept: Python may be about to open one, and would print that it cannot."""
_LOST = "Python dropped the script each time: an exception of a signal handler or an audit hook ended it"
_LONGEST_OFFSET = 1 << 24
_MAX_THREADS = 100_000
_SCRIPT = """\
import _thread
def _gputui(path={path!r}, text_at={text_at}):
    try:
        with open(path, "r+b") as file:
            content = file.read()
            if content:
                file.seek(0)
                file.write(b"\\1")
    except OSError:
        return
    if content:
        exec(compile(content[text_at:], "<gputui>", "exec", dont_inherit=True), {{"path": path, "content": content}})
_thread.start_new_thread(_gputui, ())
"""
"""Runs in the main thread, so it leaves all work to a thread that it starts."""


class Disabled(Exception):  # noqa: N818 - not an error of the program
    """The interpreter was built or started without remote debugging."""


class NoInterpreterError(Exception):
    """Python is about to make its interpreter, or has ended it."""


@dataclass(frozen=True, slots=True)
class Debugger:
    """Addresses in a process: of its main thread's eval breaker, of a request's flag, and of a request's path."""

    eval_breaker: int
    pending: int
    path: int
    path_size: int


def find(version: tuple[int, int], runtime: int, inner_pid: int, memory: Memory) -> Debugger | None:
    """Where to write a request; None if the layout is not known. Raises Disabled, NoInterpreterError, OSError."""
    words = _WORDS.get(version)
    if words is None:
        return None
    size = 8 * (max(words.values()) + 1)
    offsets = struct.unpack(f"<{size // 8}Q", memory.read(runtime, size))
    at = {name: offsets[word] for name, word in words.items()}
    if not 0 < at["path_size"] <= 4096 or max(at.values()) > _LONGEST_OFFSET:
        return None
    interpreter = _main_interpreter(runtime + at["interpreters_head"], at["interpreter_next"], memory)
    if not interpreter:
        raise NoInterpreterError
    if struct.unpack("<i", memory.read(interpreter + at["enabled"], 4))[0] != 1:
        raise Disabled
    thread = memory.word(interpreter + at["threads_main"]) or _by_id(interpreter, inner_pid, at, memory)
    if not thread:
        return None
    support = thread + at["support"]
    return Debugger(thread + at["eval_breaker"], support + at["pending"], support + at["path"], at["path_size"])


def _main_interpreter(head: int, next_at: int, memory: Memory) -> int:
    """The last interpreter of the list, as newer ones are put in front; 0 if there is none."""
    interpreter = memory.word(head)
    for _ in range(_MAX_THREADS if interpreter else 0):
        following = memory.word(interpreter + next_at)
        if not following:
            break
        interpreter = following
    return interpreter


def _by_id(interpreter: int, inner_pid: int, at: dict[str, int], memory: Memory) -> int:
    thread = memory.word(interpreter + at["threads_head"])
    for _ in range(_MAX_THREADS):
        if not thread or memory.word(thread + at["native_thread_id"]) == inner_pid:
            break
        thread = memory.word(thread + at["thread_next"])
    return thread


class Request:
    """A request to load the probe, made again if the program loses it. Its files are kept until it is withdrawn."""

    def __init__(self, debugger: Debugger, facts: Facts, linger_s: float) -> None:
        """Make the request; raises OSError."""
        self.stopped_s = 0.0
        self._debugger = debugger
        self._facts = facts
        self._linger_s = linger_s
        self._scripts: list[ScriptFile] = []
        self._contents: list[ScriptFile] = []
        self._run_at = 0.0
        self._lost_after_s = _LOST_AFTER_S
        self._make()

    def is_waiting(self) -> bool:
        """Whether the request waits for the main thread; repeats a lost one. OSError if the process has ended."""
        with Memory(self._facts.pid) as memory:
            is_pending = memory.read(self._debugger.pending, 4) != bytes(4)
        now = time.monotonic()
        if is_pending or self._contents[-1].is_begun():
            self._run_at = 0.0
        elif not self._run_at:
            self._run_at = now
        elif now > self._run_at + self._lost_after_s and not self.outcome():
            self._make_again()
        return is_pending

    def outcome(self) -> str:
        """What the program has written: "loaded", a reason, or "" if nothing yet."""
        if len(self._contents) > _MOST_REQUESTS:
            return _LOST
        return next(filter(None, (content.outcome() for content in self._contents)), "")

    def withdraw(self) -> None:
        """Have the program run nothing of what it has not run yet, and remove the files."""
        is_over = bool(self.outcome())
        self._scripts[-1].empty()
        if not self._contents[-1].is_begun():
            self._contents[-1].empty()
        try:
            with Memory(self._facts.pid, is_writable=True) as memory:
                if memory.read(self._debugger.pending, 4) != bytes(4):
                    memory.write(self._debugger.pending, bytes(4))
        except OSError:
            pass  # the process has ended
        time.sleep(0.0 if is_over else _WITHDRAWN_S)
        for file in (*self._scripts, *self._contents):
            file.close()

    def _make_again(self) -> None:
        """Make the request again, and wait longer for it. The former script does nothing if it should still begin."""
        self._contents[-1].empty()
        self._run_at = 0.0
        self._lost_after_s *= 2
        self._make()

    def _make(self) -> None:
        content = payload.for_file(self._linger_s)
        with Memory(self._facts.pid, is_writable=True) as memory:
            if memory.read(self._debugger.pending, 4) != bytes(4):
                raise OSError("another debugger's request is waiting")
            self._contents.append(ScriptFile(self._facts, content.data))
            script = _SCRIPT.format(path=self._contents[-1].path, text_at=content.text_at)
            self._scripts.append(ScriptFile(self._facts, script.encode()))
            path = os.fsencode(self._scripts[-1].path) + b"\0"
            if len(path) > self._debugger.path_size:
                raise OSError(f"the path of the script is too long: {self._scripts[-1].path}")
            memory.write(self._debugger.path, path)
            memory.write(self._debugger.pending, struct.pack("<i", 1))
            breaker = memory.word(self._debugger.eval_breaker) | _PLEASE_STOP
            memory.write(self._debugger.eval_breaker, struct.pack("<Q", breaker))
