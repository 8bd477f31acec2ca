"""What another user has put below the root of a program: nothing of it makes root write, read or wait elsewhere."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputui.inject.process import process_facts
from gputui.inject.process.foreign_files import ForeignFolder, root_of
from gputui.inject.ways.script_file import ScriptFile
from tests.attach.children import LIMIT_S, REPOSITORY, Child, Python
from tests.inject import jails
from tests.inject.test_containers import outer

ANA, GROUP, OTHER_GROUP = 12345, 12346, 12347
OWN_ROOT = """
    root=$(mktemp -d) && mount -t tmpfs none "$root" && cd "$root" && mkdir old proc dev
    for folder in /usr /bin /lib /lib64 {prefixes}; do
        if [ -d "$folder" ]; then mkdir -p ".$folder" && mount --rbind "$folder" ".$folder"; fi
    done
    touch dev/null && mount --bind /dev/null dev/null
    {made}
    mount -t proc none proc && pivot_root . old && cd / && umount -l old && umount proc && """
"""A container as Apptainer's, in the PID and user namespaces of the host; in the end no /proc covers `proc`."""
AS_ANA = f"exec setpriv --reuid={ANA} --regid={GROUP} --groups={OTHER_GROUP} --inh-caps=-all "
DATA = b"a script"


def contained(python: Python, made: str, *command: str) -> Child:
    """A program of ana's in a container with what `made` has made; it says "ready"."""
    _, prefixes = outer(python.path)
    how = OWN_ROOT.format(prefixes=prefixes, made=made) + AS_ANA + '"$0" "$@"'
    command = command or ("sh", "-c", "echo ready; read _")
    child = python.run(["unshare", "--mount", "sh", "-e", "-c", how, *command])
    child.expect("ready")
    return child


@pytest.fixture
def of_root(tmp_path: Path) -> Iterator[Path]:
    """A folder of the host in which only root may write."""
    folder = Path("/root-only-of-a-test")
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder)


def in_a_container(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that makes a container."""
    return pytest.mark.root(pytest.mark.needs("unshare")(pytest.mark.needs("setpriv")(test)))


LINKS = {
    "a link to it": "ln -s {folder} tmp",
    "a link to where it is mounted": "mkdir host && mount --bind {folder} host && ln -s host tmp",
    "a link through the old root": "ln -s ../../../../../..{folder} tmp",
    "a mount of it": "mkdir tmp && mount --bind {folder} tmp",
}


@pytest.mark.parametrize("name", LINKS)
@in_a_container
def test_root_makes_no_file_where_the_programs_user_may_not(python: Python, of_root: Path, name: str) -> None:
    child = contained(python, LINKS[name].format(folder=of_root))
    with pytest.raises(OSError, match="no file can be made in its /tmp and /dev/shm"):
        ScriptFile(process_facts.read(child.pid), DATA)
    assert list(of_root.iterdir()) == []
    assert (os.geteuid(), os.getegid()) == (0, 0)


USABLE = {
    "its own": ("tmp", "mkdir tmp && chmod 1777 tmp"),
    "a link inside": ("var/tmp", "mkdir -p var/tmp && chmod 1777 var/tmp && ln -s /var/./tmp tmp"),
    "of a group of its user": ("tmp", f"mkdir tmp && chmod 770 tmp && chgrp {OTHER_GROUP} tmp"),
}


@pytest.mark.parametrize("name", USABLE)
@in_a_container
def test_a_script_belongs_to_the_programs_user_and_is_removed(python: Python, name: str) -> None:
    folder, made = USABLE[name]
    child = contained(python, made)
    script = ScriptFile(process_facts.read(child.pid), DATA)
    assert script.path.startswith("/tmp/")
    path = Path(f"/proc/{child.pid}/root/{folder}") / Path(script.path).name
    status = path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (ANA, GROUP, 0o600)
    assert path.read_bytes() == DATA
    script.close()
    assert not path.exists()
    assert (os.geteuid(), os.getegid()) == (0, 0)


HOSTILE_STATUS = {
    "a pipe": "mkdir proc/1 && mkfifo proc/1/status && chmod 644 proc/1/status",
    "a link to an endless file": "mkdir proc/1 && ln -s /dev/zero proc/1/status",
}


@pytest.mark.parametrize("name", HOSTILE_STATUS)
@in_a_container
def test_the_proc_in_a_container_is_not_asked(python: Python, name: str) -> None:
    executable, _ = outer(python.path)
    source = jails.jail("allows everything") + "print('ready', flush=True)\ninput()"
    child = contained(python, HOSTILE_STATUS[name], executable, "-c", source)
    code = f"from gputui.inject.process import process_facts; print(process_facts.read({child.pid}).has_own_filters)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert done.stdout == "True\n"


@pytest.fixture
def rooted(tmp_path: Path) -> Path:
    """A folder that stands for the root of a process, beside one that it must not reach."""
    (tmp_path / "root" / "run" / "user").mkdir(parents=True)
    (tmp_path / "root" / "tmp").mkdir()
    (tmp_path / "outside").mkdir()
    return tmp_path / "root"


PATHS = {
    "plain": ("run/user", "", "/run/user"),
    "no slash at the end": ("run/user", "", "/run/user/"),
    "to and fro": ("run/user", "", "/run/../run/./user/x/.."),
    "above the root": ("run/user", "", "/../../../run/user"),
    "an absolute link": ("run/user", "/run", "/link/user"),
    "a relative link": ("run/user", "run/../run", "/link/user"),
    "a link above the root": ("run/user", "../../../../run", "/link/user"),
    "a link out of it": (None, "../outside", "/link/x"),
    "a link to outside": (None, "{outside}", "/link/x"),
    "a link to itself": (None, "link", "/link/x"),
}


@pytest.mark.parametrize("name", PATHS)
def test_a_path_is_followed_in_its_root_alone(rooted: Path, name: str) -> None:
    expected, target, path = PATHS[name]
    outside = rooted.parent / "outside"
    (rooted / "run" / "user" / "x").mkdir()
    (outside / "x").mkdir()
    if target:
        (rooted / "link").symlink_to(target.format(outside=outside))
    if expected is None:
        with pytest.raises(OSError, match=r"No such file|Too many levels"):
            ForeignFolder(str(rooted), path)
    else:
        with ForeignFolder(str(rooted), path) as folder:
            assert os.path.samestat(folder.status, (rooted / expected).stat())


def test_a_path_that_is_too_long_or_too_deep_is_refused_and_leaves_no_descriptor(rooted: Path) -> None:
    deep = rooted
    for _ in range(80):
        deep /= "d"
    deep.mkdir(parents=True)
    (rooted / "grows").symlink_to("grows/" * 600 + "d")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in ("/d" * 80, "/d" * 5000, "/grows/x"):
        with pytest.raises(OSError, match=r"too long|Too many levels"):
            ForeignFolder(str(rooted), path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_last_link_is_shown_as_one(rooted: Path) -> None:
    (rooted / "link").symlink_to("/tmp")
    with ForeignFolder(str(rooted), "/link") as folder:
        assert stat.S_ISLNK(folder.status.st_mode)
    with ForeignFolder(str(rooted), "/link", is_link_followed=True) as folder:
        assert stat.S_ISDIR(folder.status.st_mode)
    assert root_of(7) == "/proc/7/root"
