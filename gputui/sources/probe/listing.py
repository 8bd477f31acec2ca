"""Finding probes: the socket of a process, or the reason why there is none that can be used from here."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gputui import environment
from gputui.errors import GputuiError
from gputui.inject.process_facts import has_same_root
from gputui.model.allocator import AllocatorStatistics
from gputui.model.target import Greeting
from gputui.protocol import places
from gputui.sources.probe.client import ProbeClient, ProbeDeadError, ProbeError
from gputui.sources.procfs import ProcFs, unreadable, user_name
from gputui.sources.procfs_formats import Status

REMEDY = "Start it with `gputui run train.py ...`, or put `import gputui.probe` into the program."

_TRACED_STOP_READINGS, _TRACED_STOP_EVERY_S = 20, 0.01


class CannotAttachError(GputuiError):
    """A process that cannot be attached to, with the reason and the remedy."""


class NoProbeError(CannotAttachError):
    """A process without a probe, into which one can perhaps be put."""


@dataclass(frozen=True, slots=True)
class ProbeInfo:
    """A process with a probe: its greeting and the devices on which it holds memory, or why it did not answer."""

    pid: int
    user: str
    greeting: Greeting | None
    held: tuple[AllocatorStatistics, ...] = ()
    problem: str = ""


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
    """A connection to the probe of a process, for this command; raises CannotAttachError or ProbeError."""
    status = _status_of(pid)
    _check_state(pid, status)
    for folder, owner in _folders_of(pid, status):
        with suppress(FileNotFoundError, NotADirectoryError):
            client = _connect(folder, owner, pid, status)
            if client is not None:
                return client
    raise _without_probe(pid, command)


@_in_a_sentence()
def list_probes() -> tuple[ProbeInfo, ...]:
    """Every process that can be attached to from here, by PID; removes the socket files of dead processes.

    Raises CannotAttachError where nothing can be read.
    """
    probes: dict[int, ProbeInfo] = {}
    for folder in _all_folders():
        for path in sorted(folder.glob("*.sock")):
            process = places.process_of_name(path.name)
            if process is not None and process[0] not in probes and (info := _probe_at(path, *process)):
                probes[info.pid] = info
    return tuple(probes[pid] for pid in sorted(probes))


def children_with_probes(pid: int) -> tuple[int, ...]:
    """The descendants of `pid` that can be attached to, such as the ranks that a launcher started."""
    return tuple(probe.pid for probe in list_probes() if pid in _ancestors(probe.pid))


def _status_of(pid: int) -> Status:
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


def _folders_of(pid: int, status: Status) -> Iterator[tuple[Path, int]]:
    """The folders where the socket of a process can be, each with the user who must own it.

    They follow the process's environment and the usual places; our own user's are included, since the process may have
    started as that user.
    """
    root = _root_of(pid, status)
    runtime_dir = _environment_of(pid).get("XDG_RUNTIME_DIR")
    for owner in dict.fromkeys((status.uid, os.geteuid())):
        uid = _uid_inside(pid, owner)
        folders = [places.folder_of(uid, base) for base in (runtime_dir, f"/run/user/{uid}", None)]
        for folder in dict.fromkeys((*folders, places.folder_in_memory(uid))):
            yield root / folder.lstrip("/"), owner


def _uid_inside(pid: int, uid: int) -> int:
    """The number that a user has in the user namespace of a process, as in a rootless container."""
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


def _root_of(pid: int, status: Status) -> Path:
    """`/`, or the process's own root if it has another one or another mount namespace, as in a container."""
    proc = ProcFs()
    try:
        if proc.link(pid, "ns/mnt") == proc.link("self", "ns/mnt") and has_same_root(pid):
            return Path("/")
        os.listdir(proc.root_of(pid))
    except OSError as error:
        if status.inner_pid == pid:  # no container, but a process that has changed its user and is hidden from it
            return Path("/")
        inside = f", where it has PID {status.inner_pid}" if status.inner_pid != pid else ""
        cause = f"Process {pid} runs in another container, whose files cannot be reached from here."
        raise CannotAttachError(cause, f"Run gputui inside that container{inside}, or as root on the host.") from error
    return Path(proc.root_of(pid))


def _connect(folder: Path, owner: int, pid: int, status: Status) -> ProbeClient | None:
    fault = places.fault_of_folder(str(folder), owner)
    if fault and not _is_own(folder):
        if owner != status.uid or folder.parent.name == "shm":  # the last resort, which others may use
            return None
        cause = f"The socket of process {pid} cannot be trusted: {fault}."
        raise CannotAttachError(cause, "Remove that folder and start the program again.")
    for path in folder.glob(f"{status.inner_pid}-*.sock"):
        named = places.process_of_name(path.name)
        if named and named[1] == places.started_at(pid):
            return _client_or_nobody(path, pid)
    return None


def _is_own(folder: Path) -> bool:
    """Whether a folder is safe and our own user's: its content can be trusted like ourselves."""
    return places.fault_of_folder(str(folder), os.geteuid()) is None


def _client_or_nobody(path: Path, pid: int) -> ProbeClient | None:
    """The probe at a socket; if nobody listens any more, its file is removed."""
    try:
        return ProbeClient(str(path), pid)
    except ProbeDeadError:
        if places.is_dead(str(path)):
            with suppress(OSError):
                path.unlink()
        return None


def _without_probe(pid: int, command: str) -> CannotAttachError:
    children = list(map(str, children_with_probes(pid)))
    if children:
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


def _all_folders() -> list[Path]:
    """The socket folders that this user can read; for root, those of all users."""
    uid = os.geteuid()
    runtime_dirs = [os.environ.get("XDG_RUNTIME_DIR"), f"/run/user/{uid}", None]
    folders = [Path(places.folder_of(uid, base)) for base in runtime_dirs] + [Path(places.folder_in_memory(uid))]
    if uid == 0:
        folders += [*Path("/tmp").glob("gputui-*"), *Path("/run/user").glob("*/gputui")]
        folders += Path("/dev/shm").glob("gputui-*")
    return [folder for folder in dict.fromkeys(folders) if _is_trusted(folder)]


def _is_trusted(folder: Path) -> bool:
    try:
        return places.fault_of_folder(str(folder), folder.lstat().st_uid) is None
    except OSError:
        return False


def _probe_at(path: Path, pid: int, started: int) -> ProbeInfo | None:
    if places.started_at(pid) != started:
        if places.is_dead(str(path)):  # it can be alive in another container, where the PID means another process
            path.unlink(missing_ok=True)
        return None
    try:
        uid = path.lstat().st_uid
    except FileNotFoundError:  # its probe has ended meanwhile
        return None
    try:
        _check_state(pid, _status_of(pid))
        client = _client_or_nobody(path, pid)
        if client is None:
            return None
        with client:
            held = tuple(device for device in client.statistics().devices if device.reserved_bytes)
            return ProbeInfo(pid, user_name(uid), client.greeting, held)
    except (CannotAttachError, ProbeError) as error:
        return ProbeInfo(pid, user_name(uid), None, problem=str(error))
