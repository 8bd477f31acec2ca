"""How an attached process has ended, in a sentence: by its probe's last word, or else by what the kernel tells."""

from __future__ import annotations

import os
import signal
import time

from gputui.model.target import Ending
from gputui.sources.procfs import ProcFs

_ENDING_TAKES_S = 3.0
"""So long a process may take from closing its sockets to its end: a CUDA context goes in between."""

KILLED_BY_KERNEL = " The kernel sends it too, when the host's memory runs out: dmesg tells."


def sentence_of(pid: int, ending: Ending | None) -> str:
    """The sentence for the screens; where the probe said nothing, this waits a moment for the process to be gone."""
    if ending is not None and not ending.is_exit:
        return f"Process {pid} has stopped its probe, and goes on without it."
    if ending is not None:
        return f"Process {pid} has ended by an error: {ending.error}" if ending.error else f"Process {pid} has ended."
    last_state = _last_state(pid)
    if last_state is None:
        killed = "killed (by SIGKILL, or by the kernel where the host's memory ran out), or it crashed"
        return f"Process {pid} has ended without a word: it was {killed}."
    letter, wait_status = last_state
    if letter not in ("Z", "X"):
        return (
            f"The probe of process {pid} is gone: the process has closed all its files, has become another program, or"
            " hangs in its end."
        )
    return _by_status(pid, wait_status)


def _by_status(pid: int, status: int) -> str:
    """`status` as wait() gives it; 0 also where the kernel does not tell."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return f"Process {pid} has ended by {name}.{KILLED_BY_KERNEL if number == signal.SIGKILL else ''}"
    code = os.WEXITSTATUS(status)
    return f"Process {pid} has ended{f' with exit status {code}' if code else ''}, at once and without a word."


def _last_state(pid: int) -> tuple[str, int] | None:
    """The state letter and the wait status of a process once it is a zombie, None once it is gone."""
    proc = ProcFs()
    deadline = time.monotonic() + _ENDING_TAKES_S
    while True:
        state = proc.exit(pid)
        if state is None or state[0] in ("Z", "X") or time.monotonic() > deadline:
            return state
        time.sleep(0.01)
