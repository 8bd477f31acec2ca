"""Crashes, stops, closed files, changed identities: the program behaves as without gputui, and the viewer says why."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from gputui.model.attached.moment import TargetMoment
from gputui.model.attached.target import Statistics
from gputui.model.machine.snapshot import Snapshot
from gputui.sources.probe import exit_reason, listing
from gputui.sources.probe.client import ProbeClient, ProbeError
from gputui.sources.probe.feed import TargetFeed
from gputui.sources.probe.listing import CannotAttachError
from tests.attach.children import LIMIT_S, Python, wait_until, words_of_gputui
from tests.attach.command import attach
from tests.hanging import NOT_WITHIN_S
from tests.trust.conftest import ANA

START = """
    import gputui.probe, os, signal, sys, time
    print("ready", gputui.probe.status(), flush=True)
    input()
    print("going", flush=True)
"""

DEATHS = {
    "os.abort": ("os.abort()", -signal.SIGABRT),
    "a segmentation fault": ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV),
    "out of memory": ("raise MemoryError", 1),
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
}


@pytest.mark.parametrize("name", DEATHS)
def test_a_crash_keeps_its_exit_status_and_reaches_the_viewer(python: Python, sockets: Path, name: str) -> None:
    code, status = DEATHS[name]
    child = python.start(START + f"    {code}\n")
    child.expect("ready")
    moments: list[TargetMoment] = []
    feed = TargetFeed(child.attach(), Snapshot, moments.append, interval_s=0.1)
    feed.start()
    wait_until(lambda: moments, "the first moment")
    child.say("go")
    assert child.ended() == status
    wait_until(lambda: moments[-1].ended, "the viewer's notice of the end")
    assert moments[-1].ended is not None
    assert words_of_gputui(child.errors) == []
    assert child.pid not in {probe.pid for probe in listing.list_probes()}
    assert not list(sockets.iterdir())


def test_faulthandler_still_reports_a_segmentation_fault(python: Python) -> None:
    child = python.start(START + "    import ctypes; ctypes.string_at(0)\n", options=("-X", "faulthandler"))
    child.expect("ready")
    with child.attach() as client:
        client.subscribe(0.1)
        child.say("go")
        assert child.ended() == -signal.SIGSEGV
    assert "Segmentation fault" in child.errors
    assert "train.py" in child.errors


def test_a_stopped_program_sends_nothing_until_it_continues(python: Python) -> None:
    child = python.start(START + "    input()\n")
    child.expect("ready")
    with child.attach() as client:
        client.subscribe(0.1)
        assert isinstance(client.receive(LIMIT_S), Statistics)
        child.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        while client.receive(NOT_WITHIN_S) is not None:
            pass
        with pytest.raises(CannotAttachError, match="is stopped"):
            child.attach()
        stopped = time.time()
        child.process.send_signal(signal.SIGCONT)
        first = client.receive(LIMIT_S)
        assert isinstance(first, Statistics)
        assert first.time >= stopped  # no stale reading arrives as a new one


ESCAPES = {
    "closerange": "os.closerange(3, 4096)",
    "close those of /proc": """
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            fd < 3 or os.close(fd)
        except OSError:
            pass  # at least the descriptor that listdir used
""",
    "dup2": "[os.dup2(2, fd) for fd in range(3, 64)]",
}
OWN_FILES = """
    mine = [open(f"mine-{number}", "w+b", buffering=0) for number in range(20)]
    read, write = os.pipe()
    os.write(write, b"x" * 100)
    for _ in range(3):
        if os.fork() == 0:
            os._exit(0)
        os.wait()
    gputui.probe.mark("after")
    print("closed", flush=True)
    input()
    gputui.probe.mark("later")
    for file in mine:
        file.write(b"y" * 100)
    print("files", {os.fstat(file.fileno()).st_size for file in mine}, len(os.read(read, 1000)), flush=True)
    print("status", gputui.probe.status(), flush=True)
    input()
"""


@pytest.fixture
def short_exit_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the viewer's wait for the process to exit: these programs keep running."""
    monkeypatch.setattr(exit_reason, "_EXIT_TAKES_S", 0.1)


def receive_until_closed(client: ProbeClient) -> None:
    """Receive messages until the connection ends with an error."""
    while True:
        client.receive(LIMIT_S)


@pytest.mark.usefixtures("short_exit_wait")
@pytest.mark.parametrize("company", ["alone", "with a viewer"])
@pytest.mark.parametrize("name", ESCAPES)
def test_a_program_that_closes_every_descriptor_can_reuse_their_numbers(
    python: Python, sockets: Path, name: str, company: str
) -> None:
    child = python.start(START + f"    {ESCAPES[name]}\n" + OWN_FILES)
    child.expect("ready")
    client = child.attach() if company == "with a viewer" else None
    if client:
        client.subscribe(0.1)
    child.say("go")
    child.expect("closed")
    if client:
        with pytest.raises(ProbeError, match=r"is gone\. The process closed all its files"):
            receive_until_closed(client)
    with pytest.raises(CannotAttachError, match="has no probe"):
        child.attach()
    child.say("go on")
    assert child.expect("files") == "{100} 100"
    assert child.expect("status") == "off: the program has closed the probe's file descriptors"
    assert not list(sockets.iterdir())
    child.say("end")
    assert (child.ended(), child.errors) == (0, "")


CLOSES_DURING_AN_IMPORT = """
    import gputui.probe, os, sys, threading, time
    os.mkdir("folder")
    open("folder/later.py", "w").close()
    sys.path.insert(0, "folder")
    sys.path_importer_cache.pop("folder", None)
    try:
        import not_there
    except ImportError:
        pass
    reached = threading.Event()

    def at(event, arguments):
        if event == "open" and os.path.basename(str(arguments[0])).startswith("server."):  # source or bytecode
            [os.dup2(2, fd) for fd in range(3, 64)]
            sys.path_importer_cache["folder"]._path_cache = set()  # as after listing something that is not a folder
            reached.set()
            raise ModuleNotFoundError("read from a descriptor that was replaced")

    sys.addaudithook(at)
    print("ready", flush=True)
    reached.wait()
    while gputui.probe.status().startswith("/"):
        time.sleep(0.01)
    print("status", gputui.probe.status(), flush=True)
    import later
    print("imported", later.__name__, flush=True)
    input()
"""


@pytest.mark.usefixtures("short_exit_wait")
def test_an_interrupted_import_of_the_probe_does_not_break_the_programs_imports(python: Python, sockets: Path) -> None:
    child = python.start(CLOSES_DURING_AN_IMPORT)
    child.expect("ready")
    with pytest.raises((ProbeError, CannotAttachError)):
        receive_until_closed(child.attach())
    assert child.expect("status") == "off: the program has closed the probe's file descriptors"
    assert child.expect("imported") == "later"
    assert not list(sockets.iterdir())


CHANGES = {
    "the folder": "os.chdir('/')",
    "the umask": "os.umask(0o777)",
    "the root folder": "os.chroot('.')",
    "the session": "os.setsid() if os.getsid(0) != os.getpid() else None",
    "the name": "import ctypes; ctypes.CDLL(None).prctl(15, b') x 1 1')",
    "the environment": "os.environ.clear()",
    "the limits": "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))",
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.root] * (name == "the root folder")) for name in CHANGES]
)
def test_the_probe_survives_what_a_program_changes_about_itself(python: Python, sockets: Path, name: str) -> None:
    code = CHANGES[name]
    child = python.start(
        START.replace("import gputui.probe,", "import gputui.probe.viewers.server, json,")
        + f"    {code}\n    input()\n"
    )
    child.expect("ready")
    child.attach().close()
    child.say("go")
    child.expect("going")
    if name == "the root folder":  # the socket and this test are outside the new root
        assert child.pid in {probe.pid for probe in listing.list_probes()}
    else:
        with child.attach() as client:
            assert client.statistics().devices == ()
    child.say("end")
    assert (child.ended(), child.errors) == (0, "")


@pytest.mark.root
def test_a_program_that_becomes_another_user_still_answers_its_viewer(python: Python) -> None:
    source = START.replace("import gputui.probe,", "import gputui.probe.viewers.server, json,")
    child = python.start(
        source + f"    os.setgid({ANA}); os.setuid({ANA})\n    print('became', flush=True)\n    input()\n"
    )
    child.expect("ready")
    with child.attach() as client:
        child.say("go")
        child.expect("became")
        assert client.statistics().devices == ()
    with child.attach() as client:
        assert client.greeting.pid == child.pid
    child.say("end")
    assert (child.ended(), child.errors) == (0, "")


def test_a_removed_socket_folder_is_reported(python: Python, sockets: Path) -> None:
    child = python.start(START + "    input()\n")
    child.expect("ready")
    with child.attach() as client:
        shutil.rmtree(sockets)
        assert client.statistics().devices == ()
    status, _, errors = attach(str(child.pid), "--once")
    assert status == 1
    assert f"Process {child.pid} has a probe, but the file of its socket was removed." in errors
    child.say("go")
    child.say("end")
    assert (child.ended(), child.errors) == (0, "")


WRITES_OVER_ITS_ENVIRONMENT = """
    import ctypes
    begin, end = map(int, open("/proc/self/stat").read().rpartition(")")[2].split()[47:49])  # env_start, env_end
    ctypes.memset(begin, 0, end - begin)
"""


def test_a_program_that_wrote_its_title_over_its_environment_is_found(python: Python) -> None:
    child = python.start(WRITES_OVER_ITS_ENVIRONMENT + START + "    input()\n")
    child.expect("ready")
    assert b"XDG_RUNTIME_DIR" not in Path(f"/proc/{child.pid}/environ").read_bytes()
    status, _, errors = attach(str(child.pid), "--once")
    assert (status, errors) == (0, "")


def test_the_socket_is_listed_in_proc_net_unix(python: Python) -> None:
    child = python.start(START)
    path = child.expect("ready")
    alive = [line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines()]
    assert path in alive


FULL = {"full": "nr_inodes=2", "read-only": "ro"}


@pytest.mark.root
@pytest.mark.parametrize("name", FULL)
def test_a_program_runs_where_the_socket_folder_cannot_be_written(python: Python, sockets: Path, name: str) -> None:
    """ "full" is a tmpfs with two inodes: its root and gputui's folder."""
    folder = sockets.parent
    subprocess.run(["mount", "-t", "tmpfs", "-o", FULL[name], "none", folder], check=True)
    try:
        child = python.start(START)
        status = child.expect("ready")
        if name == "full":
            assert status.startswith("off: [Errno 28] No space left on device")
        else:
            assert status == f"/tmp/gputui-0/{Path(status).name}"
            child.attach().close()
        child.say("go")
        assert (child.ended(), child.errors) == (0, "")
    finally:
        subprocess.run(["umount", folder], check=True)
