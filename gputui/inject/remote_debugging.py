"""Python 3.14's own way in, PEP 768: a request in the main thread's state to run a script, without stopping anything.

The interpreter's debug offsets say where everything is, so gputui may run in another version. The script is a path. It
names a file in memory (memfd) of this process where the program can open that, otherwise a file in its /tmp or /dev/shm
that only its user can read, which is removed once it has been read.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

from gputui.inject import payload
from gputui.inject.images import Memory
from gputui.inject.process_facts import Facts
from gputui.inject.script_file import ScriptFile

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
"""Where `_Py_DebugOffsets` (Include/internal/pycore_debug_offsets.h) has the offsets that are needed, in words."""
_PLEASE_STOP = 1 << 5
"""The bit of a thread's eval breaker that has it look for a request."""
_LONGEST_OFFSET = 1 << 24
_MAX_THREADS = 100_000
_SCRIPT = """\
import _thread
def _gputui(path={path!r}, text_at={text_at}):
    with open(path, "rb") as file:
        content = file.read()
    if content:
        exec(compile(content[text_at:], "<gputui>", "exec", dont_inherit=True), {{"path": path, "content": content}})
_thread.start_new_thread(_gputui, ())
"""
"""It runs in the main thread, so all the work is left to another one."""


class Disabled(Exception):  # noqa: N818 - not an error of the program
    """The interpreter was built or started without remote debugging."""


@dataclass(frozen=True, slots=True)
class Debugger:
    """Addresses in a process: of its main thread's eval breaker, of the flag of a request, and of the script's path."""

    eval_breaker: int
    pending: int
    path: int
    path_size: int


def find(version: tuple[int, int], runtime: int, inner_pid: int, memory: Memory) -> Debugger | None:
    """Where to write; None for a version whose layout is not known. Raises Disabled, and OSError."""
    words = _WORDS.get(version)
    if words is None:
        return None
    size = 8 * (max(words.values()) + 1)
    offsets = struct.unpack(f"<{size // 8}Q", memory.read(runtime, size))
    at = {name: offsets[word] for name, word in words.items()}
    if not 0 < at["path_size"] <= 4096 or max(at.values()) > _LONGEST_OFFSET:
        return None
    interpreter = _main_interpreter(runtime + at["interpreters_head"], at["interpreter_next"], memory)
    if struct.unpack("<i", memory.read(interpreter + at["enabled"], 4))[0] != 1:
        raise Disabled
    thread = memory.word(interpreter + at["threads_main"]) or _by_id(interpreter, inner_pid, at, memory)
    if not thread:
        return None
    support = thread + at["support"]
    return Debugger(thread + at["eval_breaker"], support + at["pending"], support + at["path"], at["path_size"])


def _main_interpreter(head: int, next_at: int, memory: Memory) -> int:
    """The last of the list: newer ones are put in front."""
    interpreter = memory.word(head)
    for _ in range(_MAX_THREADS):
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
    """A request that was made. Its files are kept until it is closed."""

    def __init__(self, pid: int, debugger: Debugger, script: ScriptFile, content: ScriptFile) -> None:
        self.pid = pid
        self.stopped_s = 0.0
        self._debugger = debugger
        self._script = script
        self._content = content

    def is_waiting(self) -> bool:
        """Whether the main thread has not come to it; raises OSError once the process has ended."""
        with Memory(self.pid) as memory:
            return memory.read(self._debugger.pending, 4) != bytes(4)

    def outcome(self) -> str:
        """What the program has written: "loaded", a reason, or "" if nothing yet."""
        return self._content.outcome()

    def withdraw(self) -> None:
        """Have the program run nothing of what it has not run yet, and remove the files."""
        self._script.empty()
        try:
            with Memory(self.pid, is_writable=True) as memory:
                if memory.read(self._debugger.pending, 4) != bytes(4):
                    memory.write(self._debugger.pending, bytes(4))
        except OSError:
            pass  # the process has ended
        self._script.close()
        self._content.close()


def request(debugger: Debugger, facts: Facts, linger_s: float) -> Request:
    """Ask the main thread to load the probe; raises OSError."""
    content = payload.for_file(linger_s)
    with Memory(facts.pid, is_writable=True) as memory:
        if memory.read(debugger.pending, 4) != bytes(4):
            raise OSError("another debugger's request is waiting")
        content_file = ScriptFile(facts, content.data)
        script = _SCRIPT.format(path=content_file.path, text_at=content.text_at)
        script_file = ScriptFile(facts, script.encode())
        path = os.fsencode(script_file.path) + b"\0"
        if len(path) > debugger.path_size:
            raise OSError(f"the path of the script is too long: {script_file.path}")
        memory.write(debugger.path, path)
        memory.write(debugger.pending, struct.pack("<i", 1))
        memory.write(debugger.eval_breaker, struct.pack("<Q", memory.word(debugger.eval_breaker) | _PLEASE_STOP))
    return Request(facts.pid, debugger, script_file, content_file)
