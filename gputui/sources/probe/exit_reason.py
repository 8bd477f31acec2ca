"""Tells how an attached process ended, from its probe's last message, or else from what the kernel reports."""

from __future__ import annotations

import os
import signal
import time

from gputui.model.attached.target import Disconnect, DisconnectKind, Ending
from gputui.sources.procfs import ProcFs

_EXIT_TAKES_S = 3.0
"""How long a process may take from closing its sockets to its end: it frees its CUDA context in between."""


def exit_reason(pid: int, ending: Ending | None) -> Disconnect:
    """How the process ended. If its probe sent no `ending`, this waits up to `_EXIT_TAKES_S` for the process to end."""
    if ending is not None and not ending.is_exit:
        return Disconnect(DisconnectKind.PROBE_STOPPED)
    if ending is not None:
        return Disconnect(DisconnectKind.ERROR, ending.error) if ending.error else Disconnect(DisconnectKind.EXITED)
    last_state = _last_state(pid)
    if last_state is None:
        return Disconnect(DisconnectKind.VANISHED)
    letter, wait_status = last_state
    if letter not in ("Z", "X"):
        return Disconnect(DisconnectKind.PROBE_GONE)
    return _by_status(wait_status)


def _by_status(status: int) -> Disconnect:
    """How a process ended by a status as wait() gives it, which is also 0 if the kernel does not report it."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGKILL:
            return Disconnect(DisconnectKind.SIGKILL)
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return Disconnect(DisconnectKind.SIGNAL, name)
    code = os.WEXITSTATUS(status)
    return Disconnect(DisconnectKind.EXITED_AT_ONCE, str(code) if code else "")


def _state_now(proc: ProcFs, pid: int) -> tuple[str, int] | None:
    try:
        return proc.exit(pid)
    except OSError:  # gputui itself is out of file descriptors, for example: nothing is known about the process
        return ("?", 0)


def _last_state(pid: int) -> tuple[str, int] | None:
    """State letter and wait status of a process once it is a zombie or the wait is over, None once it is gone."""
    proc = ProcFs()
    deadline = time.monotonic() + _EXIT_TAKES_S
    while True:
        state = _state_now(proc, pid)
        if state is None or state[0] in ("Z", "X") or time.monotonic() > deadline:
            return state
        time.sleep(0.01)
