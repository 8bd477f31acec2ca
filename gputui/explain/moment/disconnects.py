"""The sentences about how a conversation with a probe ended."""

from __future__ import annotations

from gputui import __version__
from gputui.model.attached.target import Disconnect, DisconnectKind

_CLOSED_OR_FAILED = (
    "The process closed all its files, became another program (exec), or hangs while it exits; or its probe failed:"
    " gputui.probe.status() in it says why."
)
_STOPPED_OR_BUSY = "The program may be stopped (Ctrl-Z, a debugger) or busy in one long call."

_SENTENCES: dict[DisconnectKind, tuple[str, str]] = {
    DisconnectKind.EXITED: ("Process {pid} has ended.", ""),
    DisconnectKind.ERROR: ("Process {pid} ended with an error: {detail}", ""),
    DisconnectKind.SIGNAL: ("Process {pid} was ended by {detail}.", ""),
    DisconnectKind.SIGKILL: (
        "Process {pid} was killed by SIGKILL.",
        "The kernel also sends it when the host runs out of memory: see `dmesg`.",
    ),
    DisconnectKind.EXITED_AT_ONCE: ("Process {pid} exited{detail} without shutting Python down (os._exit).", ""),
    DisconnectKind.VANISHED: (
        "Process {pid} is gone: it crashed, was killed by SIGKILL, or ended before its probe could report how.",
        "The kernel sends SIGKILL when the host runs out of memory: see `dmesg`.",
    ),
    DisconnectKind.PROBE_STOPPED: ("Process {pid} has stopped its probe and continues without it.", ""),
    DisconnectKind.PROBE_GONE: (
        "The probe of process {pid} is gone.",
        _CLOSED_OR_FAILED,
    ),
    DisconnectKind.UNREACHABLE: ("The connection to process {pid} has failed: {detail}.", "Attach again."),
    DisconnectKind.NOT_ANSWERING: (
        "The probe in process {pid} does not answer.",
        "The program may be stopped (Ctrl-Z, a debugger), busy in one long call, or out of descriptors or memory.",
    ),
    DisconnectKind.TIMED_OUT: ("The probe in process {pid} did not answer within {detail} s.", _STOPPED_OR_BUSY),
    DisconnectKind.REFUSED: ("The probe in process {pid} refused: {detail}", ""),
    DisconnectKind.OTHER_VERSION: (
        "The probe in process {pid} is from gputui {detail}; gputui {version} cannot talk to it.",
        "Use the same version on both sides: update the older one and start the program again.",
    ),
    DisconnectKind.BROKEN_PROTOCOL: (
        "Process {pid} sent a message that gputui cannot read: {detail}.",
        "Use the same version of gputui on both sides.",
    ),
}
"""The cause and the remedy ("": nothing to do) of each kind; places in braces are filled in by `cause_and_remedy`."""


def cause_and_remedy(pid: int, disconnect: Disconnect) -> tuple[str, str]:
    """Two sentences; the second, what to do, is "" where there is nothing to do."""
    cause, remedy = _SENTENCES[disconnect.kind]
    detail = disconnect.detail
    if disconnect.kind is DisconnectKind.EXITED_AT_ONCE and detail:
        detail = f" with status {detail}"
    return cause.format(pid=pid, detail=detail, version=__version__), remedy


def sentence(pid: int, disconnect: Disconnect) -> str:
    """Cause and remedy on one line."""
    return " ".join(filter(None, cause_and_remedy(pid, disconnect)))
