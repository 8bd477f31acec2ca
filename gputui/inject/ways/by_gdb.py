"""The pending call by gdb, for processors for which there is no machine code here.

gdb stops the whole program for some tenths of a second, writes a text after the end of a library's code, and calls
`Py_AddPendingCall` with `PyRun_SimpleString` and that text. The text starts a thread that reads the probe from a file.
If gdb is killed during that call, the program ends: nothing but gdb restores its registers.
"""

from __future__ import annotations

import errno
import re
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass

from gputui.inject.process.images import Memory
from gputui.inject.process.process_facts import Facts
from gputui.inject.ways import payload
from gputui.inject.ways.script_file import ScriptFile

FUNCTIONS = ("Py_AddPendingCall", "PyRun_SimpleString")
TEXT_BYTES = 1024
START = b"exec('try:"
"""What each text begins with, by which a text that an earlier attach has left behind is recognised."""
LIMIT_S = 30.0
_ENDS_WITHIN_S = 5.0
LONGEST_S = LIMIT_S + _ENDS_WITHIN_S
"""The limit for all of gdb's work, and for its end."""
_SCRIPT = """\
try:
 import _thread, os
 def load(path={path!r}, text_at={text_at}):
  try:
   with open(path, "rb") as file:
    content = file.read()
  except OSError:
   content = b""
  if content:
   exec(compile(content[text_at:], "<gputui>", "exec", dont_inherit=True), {{"path": path, "content": content}})
 if os.getpid() == {inner_pid}:
  _thread.start_new_thread(load, ())
except BaseException:
 pass
"""
"""Runs in the main thread, and in a forked child that has a copy of the queue, so it fails silently."""
_SETTINGS = (
    "set debuginfod enabled off",
    "set auto-solib-add off",
    "set auto-load no",
    "set confirm off",
    "set pagination off",
    "set width 0",
    "set language c",
    "set unwindonsignal on",
    "set scheduler-locking off",
)
"""Set before gdb attaches. No symbols are read, which takes seconds for PyTorch's libraries. The other threads run on
during the call: a lock that one of them holds would never be free otherwise."""
_ANSWER = re.compile(r"^\$\d+ = (-?\d+)$", re.MULTILINE)
_NOT_ALIVE = -2
_TROUBLES = (("Operation not permitted", errno.EPERM), ("No such process", errno.ESRCH))


@dataclass(frozen=True, slots=True)
class GdbPlan:
    """`text_at` has room for `TEXT_BYTES`; `functions` are the addresses of `FUNCTIONS`; `lives` as in `Plan`."""

    program: str
    text_at: int
    functions: tuple[int, ...]
    lives: dict[int, int]


class GdbError(Exception):
    """gdb could not queue the call; `number` is an errno, or 0."""

    def __init__(self, words: str, number: int = 0) -> None:
        super().__init__(words)
        self.number = number


class Request:
    """A pending call with a text to run, and the file that the text reads."""

    def __init__(self, pid: int, plan: GdbPlan, content: ScriptFile, stopped_s: float) -> None:
        self.pid = pid
        self.stopped_s = stopped_s
        self._plan = plan
        self._content = content

    def is_waiting(self) -> bool:
        """Whether the program has not answered; when its main thread comes to the call cannot be seen."""
        return not self.outcome()

    def outcome(self) -> str:
        """What the program has written: "loaded", a reason, or "" if nothing yet."""
        return self._content.outcome()

    def withdraw(self) -> None:
        """Have the program run nothing that it has not begun to run, and remove the file."""
        self._content.empty()
        with suppress(OSError), Memory(self.pid, is_writable=True) as memory:  # it has ended, or only a tracer may
            memory.write(self._plan.text_at, bytes(TEXT_BYTES))
        self._content.close()


def request(plan: GdbPlan, facts: Facts, linger_s: float) -> Request:
    """Have gdb queue the call; raises GdbError and OSError."""
    content = payload.for_file(linger_s)
    file = ScriptFile(facts, content.data)
    try:
        script = _SCRIPT.format(path=file.path, text_at=content.text_at, inner_pid=facts.inner_pid)
        began = time.monotonic()
        _run(plan, facts.pid, f"exec({script!r}, {{}})\n".encode() + b"\0")
    except BaseException:
        file.close()
        raise
    return Request(facts.pid, plan, file, time.monotonic() - began)


def _run(plan: GdbPlan, pid: int, text: bytes) -> None:
    if len(text) > TEXT_BYTES:
        raise GdbError("the path of its file is too long")
    command = [plan.program, "-nx", "-batch", *(f"-iex={setting}" for setting in _SETTINGS), f"-p={pid}"]
    command += [f"-ex={line}" for line in _calls(plan, text)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as gdb:
        try:
            output, errors = gdb.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            gdb.terminate()  # it lets the program go
            gdb.communicate(timeout=_ENDS_WITHIN_S)
            raise GdbError(f"gdb did not end within {LIMIT_S:.0f} s") from None
    _check(output.decode(errors="replace"), errors.decode(errors="replace"))


def _calls(plan: GdbPlan, text: bytes) -> tuple[str, ...]:
    """In C, with addresses only, so that gdb needs no symbols."""
    add, run = plan.functions
    values = ", ".join(map(str, text))
    is_alive = " && ".join(f"*(int *) {address} == {value}" for address, value in plan.lives.items()) or "1"
    call = f"((int (*)(void *, void *)) {add})((void *) {run}, (void *) {plan.text_at})"
    return (
        f"set {{unsigned char [{len(text)}]}} {plan.text_at} = {{{values}}}",
        f"print ({is_alive}) ? {call} : {_NOT_ALIVE}",
        "detach",
    )


def _check(output: str, errors: str) -> None:
    answer = _ANSWER.search(output)
    number = int(answer[1]) if answer else None
    if number == 0:
        return
    if number == _NOT_ALIVE:
        raise GdbError("its Python is ending")
    if number is not None:
        raise GdbError("the interpreter's queue of pending calls is full")
    trouble = next(((words, number) for words, number in _TROUBLES if words in errors), None)
    if trouble:
        raise GdbError(*trouble)
    raise GdbError((errors.strip().splitlines() or ["gdb said nothing"])[-1])
