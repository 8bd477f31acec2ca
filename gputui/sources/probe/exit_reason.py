"""How an attached process has ended, in a sentence: by its probe's last word, or else by what the kernel tells."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from gputui.model.target import Ending

_ENDING_TAKES_S = 3.0
"""So long a process may take from closing its sockets to its end: a CUDA context goes in between."""

_EXIT_CODE = 49
"""Its place among the fields of /proc/PID/stat after the name."""

KILLED_BY_KERNEL = " The kernel sends it too, when the host's memory runs out: dmesg tells."


def sentence_of(pid: int, ending: Ending | None) -> str:
    """The sentence for the screens; where the probe said nothing, this waits a moment for the process to be gone."""
    if ending is not None and not ending.is_exit:
        return f"Process {pid} has stopped its probe, and goes on without it."
    if ending is not None:
        return f"Process {pid} has ended by an error: {ending.error}" if ending.error else f"Process {pid} has ended."
    fields = _last_fields(pid)
    if fields is None:
        killed = "killed (by SIGKILL, or by the kernel where the host's memory ran out), or it crashed"
        return f"Process {pid} has ended without a word: it was {killed}."
    if fields[0] not in ("Z", "X"):
        return (
            f"The probe of process {pid} is gone: the process has closed all its files, has become another program, or"
            " hangs in its end."
        )
    return _by_status(pid, int(fields[_EXIT_CODE]))


def _by_status(pid: int, status: int) -> str:
    """`status` as wait() gives it; 0 also where the kernel does not tell."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return f"Process {pid} has ended by {name}.{KILLED_BY_KERNEL if number == signal.SIGKILL else ''}"
    code = os.WEXITSTATUS(status)
    return f"Process {pid} has ended{f' with exit status {code}' if code else ''}, at once and without a word."


def _last_fields(pid: int) -> list[str] | None:
    """The fields after the name in /proc/PID/stat once it is a zombie, None once it is gone."""
    deadline = time.monotonic() + _ENDING_TAKES_S
    while True:
        try:
            text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        except OSError:
            return None
        fields = text.rpartition(")")[2].split()
        if fields[0] in ("Z", "X") or time.monotonic() > deadline:
            return fields
        time.sleep(0.01)
