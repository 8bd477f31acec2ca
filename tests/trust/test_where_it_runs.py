"""Restricted environments: few descriptors, no runtime folder, subinterpreters, free-threaded builds, containers."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from gputui.errors import GputuiError
from gputui.sources.probe import listing
from tests.attach.children import LIMIT_S, Child, Python, wait_until
from tests.attach.command import attach

WAITING = """
    import gputui.probe, os
    print("ready", os.getpid(), gputui.probe.status(), flush=True)
    import select, sys
    while not select.select([sys.stdin], [], [], 0.001)[0]:
        pass  # returns to Python often enough for a look
"""


def test_sixty_four_descriptors_are_enough(python: Python) -> None:
    child = python.start("    import resource\n    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n" + WAITING)
    child.expect("ready")
    clients = [child.attach() for _ in range(4)]
    assert [client.statistics().devices for client in clients] == [()] * 4
    for client in clients:
        client.close()
    done = subprocess.run(
        ["sh", "-c", f'ulimit -n 64; exec "$0" -m gputui attach {child.pid} --once', sys.executable],
        env=python.environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


OUT_OF_DESCRIPTORS = """
    import gputui.probe, os, resource, sys

    def fill():
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))

    print("ready", flush=True)
    if sys.stdin.readline() == "import\\n":
        import torch
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
    for _ in range(3):
        held = []
        try:
            fill()
        except OSError:
            print("full", flush=True)
        sys.stdin.readline()
        for descriptor in held:
            os.close(descriptor)
        print("free", flush=True)
        sys.stdin.readline()
"""


def test_a_viewer_stays_attached_while_the_program_has_no_descriptor_left(python: Python) -> None:
    child = python.start(OUT_OF_DESCRIPTORS)
    child.expect("ready")
    with child.attach() as client:
        for _ in range(3):
            child.say("")
            child.expect("full")
            assert client.statistics().devices == ()
            assert client.greeting.command.endswith("train.py")
            child.say("")
            child.expect("free")


def test_moments_without_descriptors_do_not_switch_the_probe_off(torch_python: Python) -> None:
    """What a probe needs for PyTorch it imports late, from files."""
    child = torch_python.start(OUT_OF_DESCRIPTORS)
    child.expect("ready")
    for line in ("import", "", ""):
        with child.attach() as client:
            child.say(line)
            child.expect("full")
            with pytest.raises(GputuiError, match="Too many open files"):
                client.statistics()
        child.say("")
        child.expect("free")
    with child.attach() as client:
        assert client.statistics().devices == ()


@pytest.mark.parametrize("runtime_dir", ["", "/nowhere", "/proc", "relative"])
def test_without_a_runtime_folder_the_socket_is_in_tmp(python: Python, runtime_dir: str) -> None:
    child = python.start(WAITING, XDG_RUNTIME_DIR=runtime_dir, HOME="/proc")
    path = Path(child.expect("ready").split()[1])
    assert path.parent == Path(f"/tmp/gputui-{os.getuid()}")
    assert attach(str(child.pid), "--once", environment={"XDG_RUNTIME_DIR": runtime_dir, "HOME": "/proc"})[0] == 0
    child.say("end")
    assert (child.ended(), child.errors) == (0, "")
    assert not path.exists()


READ_ONLY = """
    mkdir -m 700 gputui
    mount --bind "$XDG_RUNTIME_DIR" "$XDG_RUNTIME_DIR"
    mount -o remount,bind,ro "$XDG_RUNTIME_DIR"
    exec "$0" "$@"
"""


@pytest.mark.root
@pytest.mark.needs("unshare")
def test_a_folder_of_sockets_that_cannot_be_written_is_passed_over(python: Python, sockets: Path) -> None:
    """As in a container with the host's runtime folder mounted read-only: a program of the host has made it."""
    command = ["unshare", "--mount", "sh", "-e", "-c", 'cd "$XDG_RUNTIME_DIR"' + READ_ONLY]
    child = python.run([*command, python.path, "-c", textwrap.dedent(WAITING)])
    path = Path(child.expect("ready").split(maxsplit=1)[1])
    assert path.parent == Path(f"/tmp/gputui-{os.getuid()}")
    assert not list(sockets.iterdir())
    assert attach(str(child.pid), "--once")[0] == 0
    child.say("end")
    assert (child.ended(), child.errors) == (0, "")


SUBINTERPRETERS = """
    import gputui.probe, sys
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    first = gputui.probe.status()
    other = interpreters.create()
    code = "import sys; sys.path[:] = " + repr(sys.path) + "; import gputui.probe as probe; "
    code += "print('other', probe.status(), flush=True)"
    interpreters.run_string(other, code)
    interpreters.destroy(other)
    print("ready", gputui.probe.status() == first, flush=True)
    input()
"""


def test_a_subinterpreter_leaves_the_probe_to_the_main_interpreter(python: Python) -> None:
    child = python.start(SUBINTERPRETERS)
    expected = "off: this is a subinterpreter: the main interpreter's probe serves the process"
    assert child.expect("other") == expected
    assert child.expect("ready") == "True"
    child.attach().close()
    child.say("end")
    assert (child.ended(), child.errors) == (0, "")


FREE_THREADED = """
    import sys
    sys.abiflags = "t"
    import gputui.probe
    print("ready", gputui.probe.status(), flush=True)
"""


def test_a_free_threaded_build_is_refused_with_a_sentence(python: Python, sockets: Path) -> None:
    """Simulated by the ABI flag of such a build."""
    child = python.start(FREE_THREADED)
    assert child.expect("ready").startswith("off: this is a free-threaded Python, whose threads go on during a look")
    assert (child.ended(), child.errors) == (0, "")
    assert not sockets.exists()


def test_a_viewer_says_that_a_free_threaded_program_has_no_probe(python: Python) -> None:
    renamed = python.folder / "python3.13t"
    renamed.write_bytes(Path("/usr/bin/sleep").read_bytes())
    renamed.chmod(0o755)
    child = python.run([str(renamed), "600"])
    wait_until(lambda: Path(f"/proc/{child.pid}/exe").readlink() == renamed, "the program")
    status, _, errors = attach(str(child.pid))
    assert status == 1
    assert "runs in a free-threaded Python, in which the probe stays off." in errors


CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc", "--mount"]
HIDE = 'mount -t tmpfs none "$XDG_RUNTIME_DIR" && exec "$0" "$@"'
INSIDE = """
    import os, subprocess, sys
    import gputui.probe
    print("ready", os.getpid(), gputui.probe.status(), flush=True)
    for words in (["attach"], ["attach", str(os.getpid()), "--once"]):
        done = subprocess.Popen([sys.argv[1], "-m", "gputui", *words], stdout=-1, stderr=-1, text=True)
        output, errors = done.communicate()
        print("inside", done.returncode, str(os.getpid()) in output, errors, flush=True)
    input()
"""


@pytest.fixture
def contained(python: Python) -> Child:
    """A program in its own PID and mount namespaces, with its own runtime folder."""
    return python.run([*CONTAINER, "sh", "-c", HIDE, python.path, "-c", textwrap.dedent(INSIDE), sys.executable])


def outer_pid(child: Child) -> int:
    """The PID, in this namespace, of the program that `unshare` started."""
    return int(Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()[0])


@pytest.mark.root
def test_viewers_inside_and_outside_a_container_can_attach_to_its_program(contained: Child, sockets: Path) -> None:
    inner = contained.expect("ready").split()[0]
    assert inner == "1"
    assert contained.expect("inside") == "0 True"  # the list
    assert contained.expect("inside") == "0 True"  # one look
    assert not sockets.exists()  # its socket is in a folder that only the container sees
    pid = outer_pid(contained)
    with listing.attach(pid) as client:
        assert client.greeting.pid == pid
        assert client.statistics().devices == ()
    status, output, errors = attach(str(pid), "--once")
    assert (status, errors) == (0, "")
    assert output.startswith(f"{pid}  ")
