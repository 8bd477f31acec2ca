"""Sockets that another user has made for root to wait at, and file systems that never answer."""

from __future__ import annotations

import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from gputui.protocol import places
from gputui.sources.probe import listing, loading
from gputui.sources.probe.listing import CannotAttachError
from gputui.sources.probe.presence import ProbePresence
from tests.attach.children import Child, Python
from tests.trust.conftest import ANA, COUNTING

pytestmark = [pytest.mark.root, pytest.mark.needs("setpriv")]

SLEEPING = ["setpriv", f"--reuid={ANA}", f"--regid={ANA}", "--clear-groups", "sh", "-c", "echo ready; read _"]


class Listeners:
    """A folder of ana's with sockets that accept nobody, as programs of hers could make them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stack = ExitStack()
        folder.mkdir(mode=0o700)
        os.chown(folder, ANA, ANA)

    def add(self, pid: int, owner: int = ANA) -> socket.socket:
        """A socket named after a process."""
        path = self.folder / places.socket_name(pid, places.started_at(pid) or 0)
        listener = self._stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(0.0)
        os.chown(path, owner, owner)
        return listener

    def close(self) -> None:
        self._stack.close()
        shutil.rmtree(self.folder)


@pytest.fixture
def of_ana() -> Iterator[Listeners]:
    listeners = Listeners(Path(f"/tmp/gputui-{ANA}"))
    yield listeners
    listeners.close()


def sleeping(python: Python, count: int = 1) -> list[Child]:
    """Processes of ana's."""
    children = [python.run(SLEEPING) for _ in range(count)]
    for child in children:
        child.expect("ready")
    return children


def is_called(listener: socket.socket) -> bool:
    """Whether this process has connected; one in another namespace of PIDs may have asked whether anybody listens."""
    while True:
        try:
            with listener.accept()[0] as connection:
                pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        except BlockingIOError:
            return False
        if pid == os.getpid():
            return True


def test_a_socket_named_after_another_users_process_is_not_touched(python: Python, of_ana: Listeners) -> None:
    (child,) = sleeping(python)
    false, true = of_ana.add(os.getpid()), of_ana.add(child.pid)
    assert os.getpid() not in {probe.pid for probe in listing.list_probes()}
    assert (is_called(false), is_called(true)) == (False, True)


def test_a_link_to_a_socket_and_anothers_socket_are_not_touched(python: Python, of_ana: Listeners) -> None:
    linked, hers = sleeping(python, 2)
    precious = of_ana.add(1)
    name = places.socket_name(linked.pid, places.started_at(linked.pid) or 0)
    (of_ana.folder / name).symlink_to(of_ana.folder / places.socket_name(1, places.started_at(1) or 0))
    of_root = of_ana.add(hers.pid, owner=0)
    assert {linked.pid, hers.pid}.isdisjoint(probe.pid for probe in listing.list_probes())
    for child in (linked, hers):
        with pytest.raises(CannotAttachError, match=r"has no probe|was removed"):
            listing.attach(child.pid)
    assert (is_called(precious), is_called(of_root)) == (False, False)


def test_silent_sockets_keep_no_probe_from_the_list_and_wait_together(python: Python, of_ana: Listeners) -> None:
    target = python.start(COUNTING)
    target.expect("ready")
    children = sleeping(python, 12)
    for child in children:
        of_ana.add(child.pid)
    began = time.monotonic()
    listed = {probe.pid: probe for probe in listing.list_probes()}
    assert time.monotonic() < began + 6 * 10.0, "12 sockets that each wait 10 s take 120 s one after the other"
    assert listed[target.pid].problem == ""
    assert all("not answer" in listed[child.pid].problem for child in children)


def test_more_sockets_than_a_user_has_use_for_are_named_and_not_asked(
    python: Python, of_ana: Listeners, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_MOST_OF_A_USER", 1)
    monkeypatch.setattr(listing, "ALL_WITHIN_S", 0.5)
    children = sleeping(python, 3)
    listeners = [of_ana.add(child.pid) for child in children]
    problems = [probe.problem for probe in listing.list_probes() if probe.pid in {child.pid for child in children}]
    refused = [problem for problem in problems if "was not asked" in problem]
    assert len(refused) == 2
    assert re.search(r"has more than 1 probes\. Ask it with: gputui attach \d+\.$", refused[0])
    assert sum(map(is_called, listeners)) == 1


def test_a_folder_that_another_user_has_made_in_roots_place_is_not_read(
    of_ana: Listeners, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As /tmp/gputui-0 could be: the monitor marks the processes that have a probe."""
    of_ana.add(os.getpid())
    folder = Path(f"/run/not-of-root-{ANA}")
    folder.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    try:
        (folder / "gputui").symlink_to(of_ana.folder)
        assert os.getpid() not in ProbePresence()()
        (folder / "gputui").unlink()
        of_ana.folder.rename(folder / "gputui")
        assert os.getpid() not in ProbePresence()()
        os.chown(folder / "gputui", 0, 0)
        assert os.getpid() in ProbePresence()()
        (folder / "gputui").rename(of_ana.folder)
    finally:
        shutil.rmtree(folder)


FUSE = """
import ctypes, os, signal, struct, sys
signal.alarm(60)  # whoever waits for it, such as ps, holds everybody up
requests = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={requests},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
assert ctypes.CDLL(None).mount(b"none", sys.argv[1].encode(), b"fuse", 0, options) == 0
print("ready", flush=True)
ATTRIBUTES = struct.pack("<6Q10I", 2, 65536, 128, 0, 0, 0, 0, 0, 0, 0o100755, 1, 0, 0, 0, 4096, 0)
ANSWERS = {
    26: struct.pack("<4I2H2I2H8I", 7, 31, 65536, 0, 12, 9, 65536, 1, 0, 0, *[0] * 8),
    1: struct.pack("<4Q2I", 2, 0, 60, 60, 0, 0) + ATTRIBUTES,
    3: struct.pack("<Q2I", 60, 0, 0) + ATTRIBUTES,
    14: struct.pack("<Q2I", 1, 0, 0),
}
while True:
    _, code, number = struct.unpack_from("<IIQ", os.read(requests, 1 << 20))
    if code not in (2, 15) and sys.argv[2] != "nothing":
        answer = ANSWERS.get(code, b"")
        os.write(requests, struct.pack("<IiQ", 16 + len(answer), 0 if answer else -38, number) + answer)
"""
"""A file system that answers no request, or all but those to read its one file (init, lookup, getattr and open)."""


@contextmanager
def mounted(python: Python, answers: str) -> Iterator[str]:
    """Its folder."""
    folder = Path(f"/run/fuse-{ANA}")  # a long path would not be taken for sockets
    folder.mkdir()
    server = python.run([sys.executable, "-c", FUSE, str(folder), answers])
    server.expect("ready")
    try:
        yield str(folder)
    finally:
        server.end()  # ends all requests with an error
        subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()


@pytest.mark.needs("/dev/fuse")
def test_a_file_system_that_never_answers_is_named(python: Python, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "ALL_WITHIN_S", 0.5)
    with mounted(python, "nothing") as folder:
        child = python.run(SLEEPING, XDG_RUNTIME_DIR=folder)
        child.expect("ready")
        with pytest.raises(CannotAttachError, match="on a file system that does not answer"):
            listing.attach(child.pid)


@pytest.mark.needs("/dev/fuse")
def test_memory_on_a_file_system_that_never_answers_is_named(python: Python, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_EXAMINED_WITHIN_S", 2.0)
    with mounted(python, "all but reads") as folder:
        child = python.start(
            """
            import ctypes, os, sys
            lowest = ctypes.c_void_p(1 << 28)  # so that it comes before Python's own library
            ctypes.CDLL(None).mmap(lowest, 4096, 1, 2, os.open(sys.argv[1], os.O_RDONLY), ctypes.c_long(0))
            print("ready", flush=True)
            input()
            """,
            f"{folder}/libpython3.11.so.1.0",
            GPUTUI_PROBE="",
        )
        child.expect("ready")
        with pytest.raises(loading.CannotLoadError, match="cannot be read within 2 s"):
            loading.check(child.pid)


ESCAPES = {
    "by dots": "/../../../../../..{outside}",
    "by a link": "/link",
}


@pytest.mark.needs("unshare")
@pytest.mark.parametrize("name", ESCAPES)
def test_a_socket_outside_of_the_programs_root_is_not_reached(python: Python, tmp_path: Path, name: str) -> None:
    """Its environment names a folder that is ana's outside of the container, with a socket that has the right name."""
    outside = Path(f"/run/outside-{ANA}")
    outside.mkdir()
    try:
        made = f"""
            root=$(mktemp -d) && mount -t tmpfs none "$root" && cd "$root" && mkdir tmp run usr bin lib lib64
            for folder in usr bin lib lib64; do if [ -d /$folder ]; then mount --rbind /$folder $folder; fi; done
            ln -s {outside} link && exec chroot . setpriv --reuid={ANA} --regid={ANA} --clear-groups \\
                sh -c "echo ready; read _" """
        runtime_dir = ESCAPES[name].format(outside=outside)
        child = python.run(["unshare", "--mount", "sh", "-e", "-c", made], XDG_RUNTIME_DIR=runtime_dir)
        child.expect("ready")
        listeners = Listeners(outside / "gputui")
        listener = listeners.add(child.pid)
        with pytest.raises(CannotAttachError, match=r"has no probe|was removed"):
            listing.attach(child.pid)
        assert not is_called(listener)
        listeners.close()
    finally:
        shutil.rmtree(outside)
