"""How an attached process ended: by its probe's last message, or else by what the kernel tells."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from gputui.model.target import Disconnect, DisconnectKind, Ending

_EXIT_TAKES_S = 3.0
"""How long a process may take from closing its sockets to its end: it frees its CUDA context in between."""

_EXIT_CODE = 49
"""The place of the exit code among the fields of /proc/PID/stat after the name."""


def exit_reason(pid: int, ending: Ending | None) -> Disconnect:
    """How the process ended; where the probe said nothing, this waits a moment for the process to be gone."""
    if ending is not None and not ending.is_exit:
        return Disconnect(DisconnectKind.PROBE_STOPPED)
    if ending is not None:
        return Disconnect(DisconnectKind.ERROR, ending.error) if ending.error else Disconnect(DisconnectKind.EXITED)
    fields = _last_fields(pid)
    if fields is None:
        return Disconnect(DisconnectKind.VANISHED)
    if fields[0] not in ("Z", "X"):
        return Disconnect(DisconnectKind.PROBE_GONE)
    return _by_status(int(fields[_EXIT_CODE]))


def _by_status(status: int) -> Disconnect:
    """`status` as wait() gives it; 0 also where the kernel does not tell it."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGKILL:
            return Disconnect(DisconnectKind.SIGKILL)
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return Disconnect(DisconnectKind.SIGNAL, name)
    code = os.WEXITSTATUS(status)
    return Disconnect(DisconnectKind.EXITED_AT_ONCE, str(code) if code else "")


def _last_fields(pid: int) -> list[str] | None:
    """The fields after the name in /proc/PID/stat once it is a zombie, None once it is gone."""
    deadline = time.monotonic() + _EXIT_TAKES_S
    while True:
        try:
            text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        except OSError:
            return None
        fields = text.rpartition(")")[2].split()
        if fields[0] in ("Z", "X") or time.monotonic() > deadline:
            return fields
        time.sleep(0.01)
