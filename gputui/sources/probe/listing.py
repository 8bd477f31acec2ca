"""Finding probes: the socket of a process, or the sentence that says why it has none that can be used from here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gputui.errors import GputuiError
from gputui.model.allocator import AllocatorStatistics
from gputui.model.target import Greeting
from gputui.protocol import places
from gputui.sources.probe.client import ProbeClient, ProbeDeadError, ProbeError
from gputui.sources.procfs import ProcFs, user_name
from gputui.sources.procfs_formats import Status

REMEDY = "Start it with `gputui run train.py ...`, or put `import gputui.probe` into the program."


class CannotAttachError(GputuiError):
    """A process that cannot be attached to, with the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Found:
    """A process with a probe: its greeting and the devices it holds memory of, or why it did not answer."""

    pid: int
    user: str
    greeting: Greeting | None
    held: tuple[AllocatorStatistics, ...] = ()
    problem: str = ""


def attach(pid: int) -> ProbeClient:
    """A connection to the probe of a process; raises CannotAttachError or ProbeError with their sentences."""
    status = _status_of(pid)
    _check_state(pid, status)
    for folder, owner in _folders_of(pid, status):
        with suppress(FileNotFoundError, NotADirectoryError):
            client = _connect(folder, owner, pid, status)
            if client is not None:
                return client
    raise _without_probe(pid)


def list_probes() -> tuple[Found, ...]:
    """Every process that can be attached to from here, by PID; files of dead processes are removed on the way."""
    found: dict[int, Found] = {}
    for folder in _all_folders():
        for path in sorted(folder.glob("*.sock")):
            process = places.process_of_name(path.name)
            if process is not None and process[0] not in found and (one := _find(path, *process)):
                found[one.pid] = one
    return tuple(found[pid] for pid in sorted(found))


def children_with_probes(pid: int) -> tuple[int, ...]:
    """The processes below `pid` that can be attached to: the ranks that a launcher has started."""
    return tuple(found.pid for found in list_probes() if pid in _ancestors(found.pid))


def _status_of(pid: int) -> Status:
    try:
        return ProcFs().status(pid)
    except OSError as error:
        cause = f"There is no process {pid} here."
        raise CannotAttachError(
            cause, "`gputui attach` lists what can be attached to; in a container, PIDs differ from the host's."
        ) from error


def _check_state(pid: int, status: Status) -> None:
    if status.letter in "ZX":
        cause = f"Process {pid} has ended: only its exit status is left."
        raise CannotAttachError(cause)
    if status.uid != os.geteuid() and os.geteuid() != 0:
        cause = f"Process {pid} belongs to {user_name(status.uid)}."
        raise CannotAttachError(cause, f"Attach as that user, or as root: sudo gputui attach {pid}.")
    if status.letter in "Tt":
        cause = f"Process {pid} is stopped (Ctrl-Z or a debugger), and cannot answer."
        raise CannotAttachError(cause, f"Let it go on first: kill -CONT {pid}.")


def _folders_of(pid: int, status: Status) -> Iterator[tuple[Path, int]]:
    """Where the socket of a process can be, with who must own the folder.

    That is as its own environment says, and at the usual places; also those of our own user, as whom it may have begun.
    """
    root = _root_of(pid, status)
    runtime_dir = _environment_of(pid).get("XDG_RUNTIME_DIR")
    for owner in dict.fromkeys((status.uid, os.geteuid())):
        for folder in dict.fromkeys(
            places.folder_of(owner, each) for each in (runtime_dir, f"/run/user/{owner}", None)
        ):
            yield root / folder.lstrip("/"), owner


def _root_of(pid: int, status: Status) -> Path:
    """`/`, or the process's own where it sees other files: it is in a container."""
    proc = ProcFs()
    try:
        if proc.link(pid, "ns/mnt") == proc.link("self", "ns/mnt"):
            return Path("/")
        os.listdir(proc.root_of(pid))
    except OSError as error:
        if status.inner_pid == pid:  # no container, but a process that has changed its user, and hides from that one
            return Path("/")
        inside = f", where it has PID {status.inner_pid}" if status.inner_pid != pid else ""
        cause = f"Process {pid} runs in another container, whose files cannot be reached from here."
        raise CannotAttachError(cause, f"Run gputui inside that container{inside}, or as root on the host.") from error
    return Path(proc.root_of(pid))


def _connect(folder: Path, owner: int, pid: int, status: Status) -> ProbeClient | None:
    fault = places.fault_of_folder(str(folder), owner)
    if fault and not _is_own(folder):
        if owner != status.uid:
            return None
        cause = f"The socket of process {pid} cannot be trusted: {fault}."
        raise CannotAttachError(cause, "Remove that folder and start the program again.")
    for path in folder.glob(f"{status.inner_pid}-*.sock"):
        named = places.process_of_name(path.name)
        if named and named[1] == places.started_at(pid):
            return _client_or_nobody(path, pid)
    return None


def _is_own(folder: Path) -> bool:
    """Whether a folder is our own user's, and safe: what is in there is as good as we are."""
    return places.fault_of_folder(str(folder), os.geteuid()) is None


def _client_or_nobody(path: Path, pid: int) -> ProbeClient | None:
    """The probe at a socket; where nobody listens any more, its file is removed."""
    try:
        return ProbeClient(str(path), pid)
    except ProbeDeadError:
        if places.is_dead(str(path)):
            with suppress(OSError):
                path.unlink()
        return None


def _without_probe(pid: int) -> CannotAttachError:
    children = " ".join(map(str, children_with_probes(pid)))
    if children:
        cause = f"Process {pid} has no probe, but processes that it started have one."
        return CannotAttachError(cause, f"Attach to those: gputui attach {children}.")
    if _environment_of(pid).get("GPUTUI_PROBE") == "0":
        return CannotAttachError(f"Process {pid} has no probe: it was started with GPUTUI_PROBE=0.", REMEDY)
    if _is_free_threaded(pid):
        cause = f"Process {pid} runs in a free-threaded Python, in which the probe stays off."
        return CannotAttachError(cause, "Run it in the ordinary build of Python.")
    if places.is_bound(places.socket_name(_status_of(pid).inner_pid, places.started_at(pid) or 0), pid):
        cause = f"Process {pid} has a probe, but the file of its socket was removed."
        remedy = "A cleaner of temporary files does that, or a logout where XDG_RUNTIME_DIR goes with the session: "
        return CannotAttachError(cause, f"{remedy}start the next program with XDG_RUNTIME_DIR set to another folder.")
    return CannotAttachError(f"Process {pid} has no probe.", REMEDY)


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
    """The folders of sockets that this user may look into; for root, those of all users."""
    uid = os.geteuid()
    runtime_dirs = [os.environ.get("XDG_RUNTIME_DIR"), f"/run/user/{uid}", None]
    folders = [Path(places.folder_of(uid, each)) for each in runtime_dirs]
    if uid == 0:
        folders += [*Path("/tmp").glob("gputui-*"), *Path("/run/user").glob("*/gputui")]
    return [folder for folder in dict.fromkeys(folders) if _is_trusted(folder)]


def _is_trusted(folder: Path) -> bool:
    try:
        return places.fault_of_folder(str(folder), folder.lstat().st_uid) is None
    except OSError:
        return False


def _find(path: Path, pid: int, started: int) -> Found | None:
    if places.started_at(pid) != started:
        if places.is_dead(str(path)):  # it may live in another container, where the PID means something else
            path.unlink(missing_ok=True)
        return None
    uid = path.lstat().st_uid
    try:
        _check_state(pid, _status_of(pid))
        client = _client_or_nobody(path, pid)
        if client is None:
            return None
        with client:
            held = tuple(each for each in client.statistics().devices if each.reserved_bytes)
            return Found(pid, user_name(uid), client.greeting, held)
    except (CannotAttachError, ProbeError) as error:
        return Found(pid, user_name(uid), None, problem=str(error))
