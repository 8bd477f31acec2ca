"""Access to the probe's socket and its folder, tested with two real users and root."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputui.sources.probe import listing
from gputui.sources.probe.listing import CannotAttachError
from tests.attach.children import LIMIT_S, REPOSITORY, Child, Python
from tests.trust.conftest import ANA, BEN, COUNTING

BECOME = """
    import ctypes, json, os, sys
    import gputui.probe.viewers.server, gputui.sources.probe.listing

    def become(uid):
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
"""
TARGET = (
    BECOME
    + """
    become(int(sys.argv[1]))
    os.environ.update(GPUTUI_PROBE="1")
    os.environ.pop("XDG_RUNTIME_DIR", None)
    gputui.probe.start()
    print("ready", gputui.probe.status(), flush=True)
    input()
"""
)
VIEWER = (
    BECOME
    + """
    become(int(sys.argv[1]))
    from gputui.errors import GputuiError
    from gputui.sources.probe.client import ProbeClient
    from gputui.sources.probe.listing import attach
    pid, path = int(sys.argv[2]), sys.argv[3]
    try:
        with ProbeClient(path, pid) if path else attach(pid) as client:
            print("let in", client.greeting.pid)
    except GputuiError as error:
        print(error)
"""
)


def view(uid: int, pid: int, path: str = "") -> str:
    """The output of a viewer run by user `uid`, which attaches by PID or by the socket's path."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(VIEWER), str(uid), str(pid), path],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "GPUTUI_PROBE": "0"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    ).stdout.strip()


@pytest.fixture
def of_users(python: Python) -> Iterator[dict[int, Path]]:
    """The folders of both users in /tmp, which do not exist yet."""
    folders = {uid: Path(f"/tmp/gputui-{uid}") for uid in (ANA, BEN)}
    for folder in folders.values():
        clear(folder)
    yield folders
    for folder in folders.values():
        clear(folder)


def clear(path: Path) -> None:
    """Remove a file, link or folder, if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def run_as(uid: int, python: Python) -> Child:
    """A target run by user `uid`."""
    return python.start(TARGET, str(uid), GPUTUI_PROBE="0")


@pytest.mark.root
def test_only_the_owner_and_root_can_attach(python: Python, of_users: dict[int, Path]) -> None:
    child = run_as(ANA, python)
    path = child.expect("ready")
    assert Path(path).parent == of_users[ANA]
    assert stat.S_IMODE(of_users[ANA].stat().st_mode) == 0o700
    assert (Path(path).stat().st_uid, stat.S_IMODE(Path(path).stat().st_mode)) == (ANA, 0o600)
    let_in = f"let in {child.pid}"
    assert view(ANA, child.pid) == let_in
    assert view(0, child.pid) == let_in
    assert view(BEN, child.pid).startswith(f"Process {child.pid} belongs to {ANA}. Attach as that user, or as root")
    assert "Permission denied" in view(BEN, child.pid, path)
    of_users[ANA].chmod(0o755)
    Path(path).chmod(0o666)
    assert view(BEN, child.pid, path).endswith("This process belongs to another user: attach as that user, or as root.")
    assert "is open to other users (mode 755)" in view(ANA, child.pid)
    assert child.process.poll() is None


@pytest.mark.root
def test_root_finds_a_program_that_started_as_root_and_changed_user(python: Python, sockets: Path) -> None:
    child = python.start(
        f"""
        import gputui.probe.viewers.server, ctypes, json, os
        os.setgid({ANA})
        os.setuid({ANA})
        print("ready", flush=True)
        input()
        """
    )
    child.expect("ready")
    with child.attach() as client:
        assert client.greeting.pid == child.pid
    child.say("end")
    assert child.ended() == 0
    assert child.errors == ""  # the socket file belongs to root, so the program cannot remove it
    assert child.pid not in {probe.pid for probe in listing.list_probes()}
    assert not list(sockets.iterdir())


PLANTED = {
    "a folder of another user": (lambda folder: (folder.mkdir(0o700), os.chown(folder, BEN, BEN)), "belongs to user"),
    "a link to a folder": (lambda folder: folder.symlink_to("/tmp"), "is not a folder"),
    "a file": (lambda folder: folder.touch(), "is not a folder"),
    "an open folder": (lambda folder: (folder.mkdir(), folder.chmod(0o777), os.chown(folder, ANA, ANA)), "is open to"),
}


@pytest.mark.root
@pytest.mark.parametrize("name", PLANTED)
def test_the_probe_does_not_use_a_folder_planted_in_tmp(python: Python, of_users: dict[int, Path], name: str) -> None:
    plant, reason = PLANTED[name]
    plant(of_users[ANA])
    before = of_users[ANA].lstat().st_mode
    child = run_as(ANA, python)
    status = child.expect("ready")
    assert status.startswith("off: ")
    assert reason in status
    assert not list(of_users[ANA].glob(f"{child.pid}-*"))
    assert of_users[ANA].lstat().st_mode == before
    with pytest.raises(CannotAttachError, match="cannot be trusted"):
        child.attach()
    child.say("end")
    assert (child.ended(), child.errors) == (0, "")


LINKS = {
    "a symbolic link": "os.symlink(victim, path)",
    "a hard link": "os.link(victim, path)",
    "a folder": "os.mkdir(path)",
}


@pytest.mark.parametrize("name", LINKS)
def test_the_probe_does_not_follow_what_was_planted_at_its_socket_path(
    python: Python, sockets: Path, name: str
) -> None:
    sockets.mkdir(mode=0o700)
    child = python.start(
        f"""
        import os
        from gputui.protocol import places
        folder = os.environ["XDG_RUNTIME_DIR"]
        name = places.socket_name(os.getpid(), places.started_at("self"))
        victim, path = f"{{folder}}/victim", f"{{folder}}/gputui/{{name}}"
        with open(victim, "w") as file:
            file.write("precious")
        os.chmod(victim, 0o644)
        {LINKS[name]}
        import gputui.probe
        print("ready", gputui.probe.status(), flush=True)
        input()
        """
    )
    status = child.expect("ready")
    victim = sockets.parent / "victim"
    assert victim.read_text() == "precious"
    assert stat.S_IMODE(victim.stat().st_mode) == 0o644
    if name == "a folder":
        assert status.startswith("off: ")
    else:
        assert stat.S_ISSOCK(Path(status).lstat().st_mode)
        child.attach().close()
    child.say("end")
    assert (child.ended(), child.errors) == (0, "")
    assert victim.read_text() == "precious"


def test_file_modes_do_not_depend_on_the_umask(python: Python, sockets: Path) -> None:
    child = python.start("    import os\n    os.umask(0)\n" + COUNTING)
    path = Path(child.expect("ready"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(sockets.stat().st_mode) == 0o700


def test_a_regular_file_named_like_a_socket_is_not_removed(python: Python, sockets: Path) -> None:
    child = python.start(COUNTING)
    path = Path(child.expect("ready"))
    child.end()
    path.unlink()
    path.write_text("somebody's")
    again = python.start(COUNTING)
    again.expect("ready")
    listing.list_probes()
    assert path.read_text() == "somebody's"
