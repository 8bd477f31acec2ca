"""Sends signals to a process by its identity, never to another process that has the PID now."""

from __future__ import annotations

import os
import signal

from gputui.errors import GputuiError
from gputui.model.machine.process import Identity, ProcessState
from gputui.model.reading import Absent, Reading
from gputui.sources.processes.descriptions import user
from gputui.sources.procfs import ProcFs
from gputui.sources.procfs_formats import Stat


class SignalRefused(GputuiError):  # noqa: N818 - a refusal is not an error of the program
    """The signal was not sent; the message says why."""


def send_signal(identity: Identity, number: int) -> None:
    """Send signal `number` to exactly this process.

    Raises `SignalRefused` where it has ended, another process has its PID now, or it belongs to another user.
    """
    if identity.pid <= 0 or identity.started is None:
        raise SignalRefused(f"PID {identity.pid} cannot be identified for certain: the signal was not sent.")
    descriptor = _hold(identity)
    try:
        _check(identity, ProcFs().read_stat(identity.pid))
        _send(identity, number, descriptor)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _hold(identity: Identity) -> int | None:
    """A pidfd, which refers to this process even if its PID is used again.

    None where the kernel (before 5.3), a sandbox or a Python built for older kernels (conda's) does not offer it.
    """
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(identity.pid)
    except ProcessLookupError:
        raise _ended(identity) from None
    except OSError:
        return None


def _check(identity: Identity, stat: Reading[Stat] | None) -> None:
    if isinstance(stat, Absent):  # without its start time, it could be another process
        raise SignalRefused(f"PID {identity.pid} {stat.reason}: the signal was not sent.")
    if stat is None and ProcFs().is_hidden(identity.pid):
        raise SignalRefused(f"PID {identity.pid} is hidden from this user: not permitted.")
    if stat is None:
        raise _ended(identity)
    if stat.started != identity.started:
        raise SignalRefused(f"PID {identity.pid} is another process now.")
    if stat.state is ProcessState.ZOMBIE:
        cause = f"PID {identity.pid} has ended: a zombie until its parent, PID {stat.parent_pid}, collects it."
        raise SignalRefused(cause)


def _send(identity: Identity, number: int, descriptor: int | None) -> None:
    try:
        if descriptor is None:
            os.kill(identity.pid, number)
        else:
            signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        raise _ended(identity) from None
    except PermissionError:
        owner = user(ProcFs(), identity.pid)
        by_whom = "" if isinstance(owner, Absent) else f" is owned by {owner}"
        raise SignalRefused(f"PID {identity.pid}{by_whom}: not permitted.") from None


def _ended(identity: Identity) -> SignalRefused:
    return SignalRefused(f"PID {identity.pid} has ended.")
