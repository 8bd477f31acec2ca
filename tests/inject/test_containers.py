"""From outside into programs in containers, which are made of the same parts: namespaces, roots and mounts.

A viewer outside puts the probe in, looks and ends it, as a user does.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attach.children import LIMIT_S, REPOSITORY, Child, Python
from tests.attach.command import attach
from tests.inject import situations
from tests.inject.test_loading import ended_undisturbed
from tests.other_pythons import other_python

pytestmark = [pytest.mark.root, pytest.mark.needs("unshare")]

EVERYBODYS_PYTHON = "/usr/bin/python3"
NAMESPACES = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--net", "--ipc", "--uts"]
OWN_TMP = "mount -t tmpfs none /tmp && mount -t tmpfs none /run && "
ONLY_MEMORY = "mount -t tmpfs -o ro none /tmp && mount -t tmpfs -o ro none /run && mount -t tmpfs none /dev/shm && "
NOTHING = ONLY_MEMORY + "mount -o remount,ro /dev/shm && "
OWN_ROOT = """
    root=$(mktemp -d) && mount -t tmpfs none "$root" && cd "$root" && mkdir tmp old proc dev
    for folder in /usr /bin /lib /lib64 {prefixes}; do
        if [ -d "$folder" ]; then mkdir -p ".$folder" && mount --rbind "$folder" ".$folder"; fi
    done
    touch dev/null && mount --bind /dev/null dev/null && mount -t proc none proc
    pivot_root . old && cd / && umount -l old && """
"""A root with Python and without gputui, as `docker run` and Kubernetes make it."""


def contained(python: str, how: str, starter: Python, namespaces: list[str] = NAMESPACES) -> Child:
    """A program in a container; its standard streams are the container's."""
    command = [*namespaces, "sh", "-e", "-c", how + 'exec "$0" "$@"']
    child = starter.run([*command, python, "-c", situations.source("waiting for input")], XDG_RUNTIME_DIR="")
    child.expect("ready")
    return child


def first_process(child: Child) -> int:
    """The PID outside of the container's first process."""
    return int(Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text())


def outer(python: str) -> tuple[str, str]:
    """The real path of an interpreter, and the folders that it needs; a virtual environment may lie below /tmp."""
    code = "import sys; print(sys.base_prefix, sys.base_exec_prefix, sys._base_executable, sep='\\n')"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    *prefixes, executable = done.stdout.splitlines()
    return os.path.realpath(executable), shlex.join(dict.fromkeys(prefixes))


def attached(pid: int, times: int = 1) -> None:
    """Attach from outside, as `gputui attach` does, with a socket that both sides reach."""
    for _ in range(times):
        status, output, errors = attach(str(pid), "--once", "--yes")
        assert (status, errors) == (0, "")
        assert output.startswith(f"{pid}  ")
        assert attach(str(pid), "--detach") == (0, "", "")


@pytest.mark.place
@pytest.mark.parametrize("how", [OWN_TMP, ONLY_MEMORY], ids=["own /tmp", "nothing but /dev/shm can be written"])
def test_the_probe_is_put_into_a_container_from_outside(python: Python, how: str) -> None:
    child = contained(outer(python.path)[0], how, python)
    attached(first_process(child), times=2)
    ended_undisturbed(child)


@pytest.mark.needs("python3.14")
@pytest.mark.parametrize("how", [OWN_TMP, ONLY_MEMORY], ids=["own /tmp", "nothing but /dev/shm can be written"])
def test_python_3_14_in_a_container_finds_its_script(python: Python, how: str) -> None:
    child = contained(other_python("python3.14"), how, python)
    attached(first_process(child))
    ended_undisturbed(child)


@pytest.mark.parametrize("name", ["this", "python3.8", "python3.12"])
def test_a_root_with_a_python_of_its_own_and_without_gputui(python: Python, name: str) -> None:
    path = python.path if name == "this" else other_python(name)
    if not path:
        path = python.path
    executable, prefixes = outer(path)
    child = contained(executable, OWN_ROOT.format(prefixes=prefixes), python)
    pid = first_process(child)
    assert not Path(f"/proc/{pid}/root{REPOSITORY}").exists()
    attached(pid)
    ended_undisturbed(child)


@pytest.mark.place
def test_a_root_of_its_own_in_the_same_mount_namespace(python: Python, tmp_path: Path) -> None:
    """As with chroot: the viewer runs in the mount namespace of the program, but with another root."""
    root = tmp_path / "root"
    root.mkdir()
    how = f"mount --rbind / {root} && mount -t tmpfs none {root}/tmp && exec chroot {root} "
    program = [outer(python.path)[0], "-c", situations.source("computing")]
    launcher = python.run(["unshare", "--mount", "sh", "-c", how + '"$0" "$@"', *program], XDG_RUNTIME_DIR="")
    launcher.expect("ready")
    pid = str(launcher.pid)
    viewer = ["nsenter", "--target", pid, "--mount", sys.executable, "-m", "gputui", "attach", pid]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    for arguments in (["--once", "--yes"], ["--detach"]):
        done = subprocess.run(
            [*viewer, *arguments], env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        assert done.returncode == 0, done.stderr
    ended_undisturbed(launcher)


def test_a_container_in_which_nothing_can_be_written_is_named(python: Python) -> None:
    child = contained(outer(python.path)[0], NOTHING, python)
    status, _, errors = attach(str(first_process(child)), "--once", "--yes")
    assert status == 1
    assert "no socket can be made in /tmp, /tmp or /dev/shm (Read-only file system)" in errors


AS_ANA = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"]
READING_ALL = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
"""The Python of the tests may lie in a folder of root's."""
ROOTLESS = [*AS_ANA, "unshare", "--user", "--map-root-user", *NAMESPACES[1:]]


@pytest.mark.needs("setpriv")
@pytest.mark.needs(EVERYBODYS_PYTHON)
def test_a_rootless_container_is_attached_to_by_its_user_and_refused_to_root(python: Python) -> None:
    shutil.chown(python.folder, 12345)
    child = contained(EVERYBODYS_PYTHON, OWN_TMP, python, ROOTLESS)
    pid = first_process(child)
    status, _, errors = attach(str(pid), "--once", "--yes")
    assert status == 1
    assert "in which the user of gputui does not exist" in errors
    assert f"sudo -u '#12345' gputui attach {pid}" in errors
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "HOME": "/nowhere"}
    for arguments in (["--once", "--yes"], ["--detach"]):
        done = subprocess.run(
            [*AS_ANA, *READING_ALL, sys.executable, "-m", "gputui", "attach", str(pid), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    ended_undisturbed(child)
