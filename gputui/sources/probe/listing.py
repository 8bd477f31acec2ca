"""Finds probes: the socket of a process, or the reason why none can be used from here."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import NamedTuple

from gputui import environment
from gputui.errors import GputuiError
from gputui.inject.process.foreign_files import ForeignFolder, has_same_files, root_of
from gputui.inject.process.process_facts import workers_of
from gputui.protocol import places
from gputui.sources.at_once import at_once
from gputui.sources.probe import socket_folders
from gputui.sources.probe.client import ProbeClient, ProbeError
from gputui.sources.probe.told import ProbeInfo, silent, told_by
from gputui.sources.probe.turns import Turns
from gputui.sources.procfs import EMPTY, MOUNT, ProcFs, unreadable, user_name
from gputui.sources.procfs_formats import Status

REMEDY = "Start it with `gputui run train.py ...`, or put `import gputui.probe` into the program."

ALL_WITHIN_S = 10.0
"""How long all probes together may take to be found and to answer."""
_TRACED_STOP_READINGS, _TRACED_STOP_EVERY_S = 20, 0.01
_MOST_OF_A_USER = 64
"""How many sockets of another user are asked: any user can make thousands that never answer."""
_SHORT_BYTES = 1 << 20
"""The largest message of a probe for the list."""


class CannotAttachError(GputuiError):
    """A process that cannot be attached to, with the reason and the remedy."""


class NoProbeError(CannotAttachError):
    """A process without a probe, into which a probe can perhaps be put."""


ATTACH = "gputui attach"


@contextmanager
def _in_a_sentence() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        cause = f"Probes cannot be looked for: {error.strerror or error}."
        remedy = "Close other programs, or raise the limit (ulimit -n)." if error.errno in _SHORTAGES else ""
        raise CannotAttachError(cause, remedy) from error


_SHORTAGES = (errno.EMFILE, errno.ENFILE)


@_in_a_sentence()
def attach(pid: int, command: str = ATTACH) -> ProbeClient:
    """A connection to the probe of a process; raises CannotAttachError, whose remedy names `command`, or ProbeError."""
    status = _status_of(pid)
    _check_state(pid, status)
    deadline = time.monotonic() + 2 * ALL_WITHIN_S
    (clients,) = at_once(lambda pid: _clients(pid, status), [pid], deadline)
    if clients is None:
        cause = f"The files of process {pid} lie on a file system that does not answer."
        raise CannotAttachError(cause)
    if not clients:
        raise _without_probe(pid, command)
    return clients[0]


@_in_a_sentence()
def list_probes(
    is_wanted: Callable[[int], bool] = lambda _pid: True,
    *,
    within_s: float | None = None,
    at_a_time: int | None = None,
    turns: Turns | None = None,
) -> tuple[ProbeInfo, ...]:
    """Every process that can be attached to from here, by PID; removes the socket files of dead processes.

    The wanted probes are all asked at once, so that none can keep the others waiting, or `at_a_time` at once, each in
    its turn.
    """
    if ProcFs().is_empty:
        raise CannotAttachError(EMPTY, MOUNT)
    limit_s = ALL_WITHIN_S if within_s is None else within_s
    deadline = time.monotonic() + limit_s
    folders = at_once(_sockets_in, socket_folders.usual_folders(), deadline)
    sockets = {socket.pid: socket for found in folders for socket in found or () if is_wanted(socket.pid)}
    in_turn = turns or Turns()
    queue = in_turn.in_order(sockets.values(), lambda socket: socket.pid)
    answers = at_once(
        lambda socket: in_turn.ask(socket.pid, lambda: _asked(socket, limit_s)), queue, deadline, at_a_time
    )
    probes = [
        probe
        for socket, answer in zip(queue, answers, strict=True)
        for probe in ([silent(socket.pid, user_name(socket.owner), limit_s)] if answer is None else answer)
    ]
    return tuple(sorted(probes, key=lambda probe: probe.pid))


def children_with_probes(pid: int) -> tuple[int, ...]:
    """The descendants of `pid` that can be attached to, such as the ranks that a launcher started."""
    return tuple(probe.pid for probe in list_probes(lambda child: pid in _ancestors(child)))


def _status_of(pid: int) -> Status:
    if ProcFs().is_empty:
        raise CannotAttachError(EMPTY, MOUNT)
    try:
        return ProcFs().status(pid)
    except (FileNotFoundError, ProcessLookupError) as error:
        cause = f"There is no process {pid} here."
        raise CannotAttachError(
            cause, "`gputui attach` lists what can be attached to; in a container, PIDs differ from the host's."
        ) from error
    except OSError as error:
        cause = f"Process {pid}: /proc/{pid}/status {unreadable(error).reason}."
        raise CannotAttachError(cause) from error


def _check_state(pid: int, status: Status) -> None:
    if status.is_strict:
        cause = f"Process {pid} is in seccomp's strict mode, in which an answer of its probe would end it."
        raise CannotAttachError(cause)
    if status.letter in "ZX":
        cause = f"Process {pid} has ended: only its exit status is left."
        raise CannotAttachError(cause)
    if status.uid != os.geteuid() and os.geteuid() != 0:
        cause = f"Process {pid} belongs to {user_name(status.uid)}."
        raise CannotAttachError(cause, f"Attach as that user, or as root: sudo gputui attach {pid}.")
    if status.letter == "T" or (status.letter == "t" and _is_kept_stopped(pid)):
        cause = f"Process {pid} is stopped (Ctrl-Z or a debugger), and cannot answer."
        raise CannotAttachError(cause, f"Continue it first: kill -CONT {pid}.")


def _is_kept_stopped(pid: int) -> bool:
    """Whether a tracer keeps a process stopped; strace stops it for moments only."""
    for _ in range(_TRACED_STOP_READINGS):
        time.sleep(_TRACED_STOP_EVERY_S)
        if _status_of(pid).letter != "t":
            return False
    return True


def _clients(pid: int, status: Status) -> list[ProbeClient]:
    """A list with a connection to the probe of a process, [] if it has none."""
    root = _root_of(pid, status)
    name = places.socket_name(status.inner_pid, places.started_at(pid) or 0)
    for path, owner in _folders_of(pid, status):
        folder = socket_folders.opened(path, root)
        if folder is not None:
            with folder:
                client = _connected(folder, owner, name, pid, status)
            if client is not None:
                return [client]
    return []


def _folders_of(pid: int, status: Status) -> Iterator[tuple[str, int]]:
    """The folders where the socket of a process can be, as the process names them, each with the user who must own it.

    They follow from the process's environment and the usual places. Our own user's folders are included, since the
    process may have started as that user, and those of our own environment, since a process that sets its title
    (setproctitle) overwrites its environment.
    """
    runtime_dirs = dict.fromkeys((_environment_of(pid).get("XDG_RUNTIME_DIR"), os.environ.get("XDG_RUNTIME_DIR")))
    for owner, runtime_dir in product(dict.fromkeys((status.uid, os.geteuid())), runtime_dirs):
        for folder in places.folders_of(_uid_inside(pid, owner), runtime_dir):
            yield folder, owner


def _uid_inside(pid: int, uid: int) -> int:
    """The UID that a user has in the user namespace of a process, which differs in a rootless container."""
    proc = ProcFs()
    try:
        if proc.link(pid, "ns/user") == proc.link("self", "ns/user"):
            return uid
        for line in Path(f"/proc/{pid}/uid_map").read_text(encoding="ascii").splitlines():
            inside, outside, count = map(int, line.split())
            if outside <= uid < outside + count:
                return uid - outside + inside
    except OSError:
        pass
    return uid


def _root_of(pid: int, status: Status) -> str:
    """The root folder of a process as we reach it: "/", or in another mount namespace or chroot its root in /proc."""
    try:
        if has_same_files(pid):
            return "/"
        ForeignFolder(root_of(pid), "/").close()
    except OSError as error:
        if status.inner_pid == pid:  # no container, but a process that has changed its user and is hidden from it
            return "/"
        inside = f", where it has PID {status.inner_pid}" if status.inner_pid != pid else ""
        cause = f"Process {pid} runs in another container, whose files cannot be reached from here."
        raise CannotAttachError(cause, f"Run gputui inside that container{inside}, or as root on the host.") from error
    return root_of(pid)


def _connected(folder: ForeignFolder, owner: int, name: str, pid: int, status: Status) -> ProbeClient | None:
    fault = socket_folders.fault_of(folder, owner)
    if fault and socket_folders.fault_of(folder, os.geteuid()):  # our own can be trusted like ourselves
        if owner != status.uid or folder.path.startswith("/dev/shm/"):  # the last resort, which others may use
            return None
        cause = f"The socket of process {pid} cannot be trusted: {fault}."
        raise CannotAttachError(cause, "Remove that folder and start the program again.")
    return socket_folders.connected(folder, name, pid)


def _without_probe(pid: int, command: str) -> CannotAttachError:
    children = list(map(str, children_with_probes(pid)))
    if children and pid not in workers_of(pid):
        cause = f"Process {pid} has no probe, but processes that it started have one."
        return CannotAttachError(cause, _for_children(command, children))
    if _environment_of(pid).get(environment.PROBE) == "0":
        return CannotAttachError(f"Process {pid} has no probe: it was started with {environment.PROBE}=0.", REMEDY)
    if _is_free_threaded(pid):
        cause = f"Process {pid} runs in a free-threaded Python, in which the probe stays off."
        return CannotAttachError(cause, "Run it in the ordinary build of Python.")
    if places.is_bound(places.socket_name(_status_of(pid).inner_pid, places.started_at(pid) or 0), pid):
        cause = f"Process {pid} has a probe, but the file of its socket was removed."
        remedy = "Cleaners of temporary files remove it, and so does a logout that removes XDG_RUNTIME_DIR: "
        return CannotAttachError(cause, f"{remedy}start the next program with XDG_RUNTIME_DIR set to another folder.")
    return NoProbeError(f"Process {pid} has no probe.", f"To put it in: gputui attach {pid} --yes. {REMEDY}")


def _for_children(command: str, pids: list[str]) -> str:
    """What to type for processes that a launcher has started: only `attach` takes several."""
    if command == ATTACH:
        return f"Attach to those: {command} {' '.join(pids)}."
    others = ", ".join(pids[1:])
    return f"Name one of those: {command} {pids[0]}{f' (or {others})' if others else ''}."


def _is_free_threaded(pid: int) -> bool:
    try:
        name = os.path.basename(ProcFs().link(pid, "exe"))
    except OSError:
        return False
    return name.startswith("python3.") and name.endswith("t")


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        try:
            pid = _status_of(pid).parent_pid
        except CannotAttachError:
            return
        yield pid


def _environment_of(pid: int) -> dict[str, str]:
    try:
        return ProcFs().variables(pid)
    except OSError:
        return {}


class _Socket(NamedTuple):
    """A socket in a user's folder, named after one of the user's processes; `is_asked`: it is among the first few."""

    folder: str
    owner: int
    name: str
    pid: int
    is_asked: bool


def _sockets_in(place: tuple[str, int]) -> list[_Socket]:
    """The sockets in a folder that a user must own, of that user's processes alone unless it is our own folder."""
    path, owner = place
    folder = socket_folders.opened(path)
    if folder is None:
        return []
    with folder:
        if socket_folders.fault_of(folder, owner):
            return []
        is_own = owner == os.geteuid()
        living = [found for found in socket_folders.living(folder) if is_own or _uid_of(found[0]) == owner]
    return [_Socket(path, owner, name, pid, is_own or n < _MOST_OF_A_USER) for n, (pid, name) in enumerate(living)]


def _uid_of(pid: int) -> int | None:
    try:
        return ProcFs().status(pid).uid
    except OSError:
        return None


def _asked(socket: _Socket, within_s: float) -> list[ProbeInfo]:
    """A list with what a probe says of its process, [] if the probe is gone."""
    pid, user = socket.pid, user_name(socket.owner)
    if not socket.is_asked:
        problem = (
            f"Process {pid} was not asked: {user} has more than {_MOST_OF_A_USER} probes. "
            f"Ask it with: gputui attach {pid}."
        )
        return [ProbeInfo(pid, user, None, problem=problem)]
    try:
        _check_state(pid, _status_of(pid))
        folder = socket_folders.opened(socket.folder)
        if folder is None:
            return []
        with folder:
            is_trusted = socket_folders.fault_of(folder, socket.owner) is None
            if not is_trusted:
                return []
            client = socket_folders.connected(folder, socket.name, pid, _SHORT_BYTES, within_s)
        if client is None:
            return []
        with client:
            return [told_by(client, pid, user)]
    except (CannotAttachError, ProbeError) as error:
        return [ProbeInfo(pid, user, None, problem=str(error))]
