"""Start, stop, fork, exec and exit: the program behaves as without the probe, which leaves nothing behind."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

from gputui.sources.probe import listing
from gputui.sources.probe.client import ProbeError
from gputui.sources.probe.listing import CannotAttachError
from tests.attach.children import Python, wait_until

WAITING = """
    import gputui.probe
    print("ready", gputui.probe.status(), flush=True)
    input()
"""


def test_importing_the_probe_starts_it(python: Python, sockets: Path) -> None:
    child = python.start(WAITING)
    path = Path(child.expect("ready"))
    assert path.parent == sockets
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    with child.attach() as client:
        assert (client.greeting.pid, client.greeting.torch) == (child.pid, "")


def test_gputui_probe_0_keeps_the_probe_off(python: Python, sockets: Path) -> None:
    child = python.start(WAITING, GPUTUI_PROBE="0")
    assert child.expect("ready") == "off: GPUTUI_PROBE is 0"
    assert not sockets.exists()
    with pytest.raises(listing.CannotAttachError, match="GPUTUI_PROBE=0"):
        child.attach()


def test_a_second_start_is_harmless_and_stop_leaves_nothing_behind(python: Python, sockets: Path) -> None:
    child = python.start(
        """
        import gputui.probe as probe, os
        first = probe.status()
        probe.start(); probe.start()
        print("same", probe.status() == first, flush=True)
        probe.stop(); probe.stop()
        print("left", os.listdir(os.path.dirname(first)), len(os.listdir("/proc/self/task")), flush=True)
        probe.start()
        print("again", probe.status() == first, flush=True)
        input()
        """
    )
    assert child.expect("same") == "True"
    assert child.expect("left") == "[] 1"
    assert child.expect("again") == "True"
    child.attach().close()


def test_the_probe_sleeps_in_one_thread_that_blocks_signals(python: Python) -> None:
    child = python.start(WAITING)
    child.expect("ready")
    (thread,) = {path.name for path in Path(f"/proc/{child.pid}/task").iterdir()} - {str(child.pid)}
    status = Path(f"/proc/{child.pid}/task/{thread}/status")

    def switches() -> list[str]:
        return [line for line in status.read_text().splitlines() if "ctxt_switches" in line]

    wait_until(lambda: "S (sleeping)" in status.read_text(), "the thread's sleep")
    before = switches()
    listing.attach(child.pid).close()  # wakes the thread and takes some time
    wait_until(lambda: switches() != before, "serving the viewer")
    blocked = int(next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("SigBlk")), 16)
    assert all(blocked & 1 << number - 1 for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM))


def test_the_threading_module_does_not_know_the_probes_thread(python: Python) -> None:
    child = python.start(
        """
        import gputui.probe, sys
        print("ready", flush=True)
        input()
        print("early", "threading" in sys.modules, flush=True)
        import threading
        print("threads", threading.active_count(), threading.main_thread() is threading.current_thread(), flush=True)
        """
    )
    child.expect("ready")
    with child.attach() as client:
        client.subscribe(0.1)
        client.look("scan", wait_s=0.1)
        child.say("go")
        assert child.expect("early") == "False"
    assert child.expect("threads") == "1 True"
    assert child.ended() == 0


LATE = """
    import gputui.probe, os, sys, threading, time
    entered, leave = threading.Event(), threading.Event()

    def at(event, arguments):
        if event == "import" and arguments[0] == "gputui.probe.server" and not entered.is_set():
            entered.set()
            leave.wait()
            raise ModuleNotFoundError("late")

    sys.addaudithook(at)
    print("ready", flush=True)
    entered.wait()
    gputui.probe.stop()
    print("stopped", gputui.probe.status(), flush=True)
    gputui.probe.start()
    started = gputui.probe.status()
    leave.set()
    while len(os.listdir("/proc/self/task")) > 2:
        time.sleep(0.01)
    print("again", gputui.probe.status() == started, flush=True)
    input()
"""


def test_a_late_thread_of_a_stopped_probe_does_not_end_the_next(python: Python) -> None:
    child = python.start(LATE)
    child.expect("ready")
    with pytest.raises((ProbeError, CannotAttachError)):
        child.attach().look()
    assert child.expect("stopped") == "stopped"
    assert child.expect("again") == "True"
    child.attach().close()
    child.say("end")
    assert (child.ended(), child.errors) == (0, "")


ENDINGS = {
    "the end": ("", None, 0),
    "an exception": ("raise ValueError('mine')", None, 1),
    "sys.exit": ("import sys; sys.exit(7)", None, 7),
    "os._exit": ("import os; os._exit(5)", None, 5),
    "Ctrl-C": ("for _ in range(100): time.sleep(1)", signal.SIGINT, -signal.SIGINT),
    "SIGTERM": ("time.sleep(100)", signal.SIGTERM, -signal.SIGTERM),
    "SIGKILL": ("time.sleep(100)", signal.SIGKILL, -signal.SIGKILL),
}


@pytest.mark.parametrize("company", ["alone", "with a viewer"])
@pytest.mark.parametrize("name", ENDINGS)
def test_the_program_ends_as_without_the_probe(python: Python, sockets: Path, name: str, company: str) -> None:
    code, number, status = ENDINGS[name]
    start = "import gputui.probe, time\nprint('ready', flush=True)\ninput()\nprint('going', flush=True)\n"
    child = python.start(start + code)
    child.expect("ready")
    client = child.attach() if company == "with a viewer" else None
    if client:
        client.subscribe(0.1)
    child.say("go")
    child.expect("going")
    if number:
        child.process.send_signal(number)
    assert child.ended() == status
    assert ("mine" in child.errors) == (name == "an exception")
    assert "gputui" not in child.errors
    assert child.pid not in {probe.pid for probe in listing.list_probes()}
    assert not list(sockets.iterdir())
    if client:
        with pytest.raises(ProbeError, match=r"^Process \d+ (has ended|ended with|was ended by|was killed|is gone)"):
            client.look()
        client.close()


def test_a_forked_child_never_answers_for_its_parent(python: Python, sockets: Path) -> None:
    child = python.start(
        """
        import gputui.probe as probe, os, sys, warnings
        warnings.simplefilter("error")
        read, write = os.pipe()
        forked = os.fork()
        if forked == 0:
            os.close(write)  # so that this process's read ends when the parent ends
            print("child", os.getpid(), probe.status(), len(os.listdir("/proc/self/task")), flush=True)
            os.read(read, 1)
            probe.mark("used")
            print("used", probe.status(), flush=True)
            os.read(read, 1)
            sys.exit(0)
        input()
        os.write(write, b".")
        input()
        os.write(write, b".")
        os.waitpid(forked, 0)
        print("over", probe.status(), flush=True)
        input()
        """
    )
    pid, *status = child.expect("child").split()
    assert " ".join(status) == "forked: gputui.probe.start() or mark() starts a probe here 1"
    with child.attach() as client:
        assert client.greeting.pid == child.pid
    with pytest.raises(listing.CannotAttachError, match="has no probe"):
        listing.attach(int(pid))
    child.say("let the child use it")
    assert Path(child.expect("used")).name.startswith(f"{pid}-")
    with listing.attach(int(pid)) as client:
        assert client.greeting.pid == int(pid)
    assert {child.pid, int(pid)} <= {probe.pid for probe in listing.list_probes()}
    child.say("let the child end")
    child.expect("over")
    assert [path.name.split("-")[0] for path in sockets.iterdir()] == [str(child.pid)]
    child.attach().close()
    assert child.errors == ""


def test_viewers_stay_connected_across_a_fork(python: Python) -> None:
    child = python.start(
        """
        import gputui.probe, os
        print("ready", flush=True)
        input()
        for _ in range(20):
            if os.fork() == 0:
                os._exit(0)
            os.wait()
        print("forked", flush=True)
        input()
        """
    )
    child.expect("ready")
    with child.attach() as client:
        child.say("fork")
        child.expect("forked")
        assert client.statistics().devices == ()


def test_exec_leaves_no_probe_and_no_socket(python: Python, sockets: Path) -> None:
    child = python.start(
        """
        import gputui.probe, os, sys
        print("ready", flush=True)
        input()
        os.execv(sys.executable, [sys.executable, "-c", "print('another', flush=True); input()"])
        """
    )
    child.expect("ready")
    child.attach().close()
    child.say("exec")
    child.expect("another")
    with pytest.raises(listing.CannotAttachError, match="has no probe"):
        child.attach()
    assert not list(sockets.iterdir())


def test_a_start_removes_the_sockets_of_dead_processes(python: Python, sockets: Path) -> None:
    dead = python.start(WAITING)
    left = Path(dead.expect("ready"))
    dead.end()
    assert left.exists()
    child = python.start(WAITING)
    child.expect("ready")
    assert not left.exists()


def test_a_symbolic_link_is_not_used_as_the_socket_folder(python: Python, sockets: Path) -> None:
    target = sockets.parent / "elsewhere"
    target.mkdir(mode=0o700)
    sockets.symlink_to(target)
    child = python.start(WAITING)
    assert "is not a folder" in child.expect("ready")


@pytest.mark.root
def test_another_users_folder_is_not_used_as_the_socket_folder(python: Python, sockets: Path) -> None:
    sockets.mkdir(mode=0o700)
    os.chown(sockets, 12345, 12345)
    child = python.start(WAITING)
    assert "belongs to user 12345" in child.expect("ready")
