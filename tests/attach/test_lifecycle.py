"""Start, stop, fork, exec and exit: the program behaves as without the probe, which leaves nothing behind."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

from gputui.model.attached.target import ActionName
from gputui.sources.probe import listing
from gputui.sources.probe.client import ProbeError
from gputui.sources.probe.listing import CannotAttachError
from tests.attach.children import Python, wait_until, words_of_gputui

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


def test_a_probe_that_ends_does_not_remove_the_file_of_the_next_one(python: Python) -> None:
    child = python.start(
        """
        import gputui.probe as probe, os, threading
        from gputui.probe.viewers import sockets

        def remove(path, really=sockets.remove):
            sockets.remove = really  # once, while another thread starts the next probe
            other = threading.Thread(target=probe.start)
            other.start()
            other.join(1)
            really(path)

        sockets.remove = remove
        probe.stop()
        print("after", probe.status(), flush=True)
        probe.start()
        print("there", os.path.exists(probe.status()), flush=True)
        input()
        """
    )
    assert child.expect("after") == "stopped"
    assert child.expect("there") == "True"
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
        is_server = event == "open" and os.path.basename(str(arguments[0])).startswith("server.")
        if is_server and not entered.is_set():
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
    assert ("ValueError: mine" in child.errors) == (name == "an exception")
    assert words_of_gputui(child.errors) == []
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


FORKING_THREADS = """
    import os, sys, threading, time

    def note_threads():  # hooks before a fork run in reverse order: the probe's has run
        time.sleep(0.005)  # other threads fork meanwhile
        beside_the_probe.append(len(os.listdir("/proc/self/task")) - THREADS - 1)

    beside_the_probe = []
    os.register_at_fork(before=note_threads)
    import gputui.probe as probe

    THREADS, FORKS = int(sys.argv[1]), int(sys.argv[2])
    parent = os.getpid()

    def left_behind():
        links = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if fd not in ("0", "1", "2")
                 if os.path.islink(f"/proc/self/fd/{fd}")]
        return (
            1 * (not probe.status().startswith("forked"))
            + 2 * (len(os.listdir("/proc/self/task")) != 1)
            + 4 * any(link.startswith("socket:") for link in links)
        )

    def fork(statuses):
        for _ in range(FORKS):
            child = os.fork()
            if child == 0:
                os._exit(left_behind())
            statuses.append(os.waitpid(child, 0)[1])
        all_have_forked.wait()

    print("ready", flush=True)
    input()
    statuses, all_have_forked = [], threading.Barrier(THREADS)
    threads = [threading.Thread(target=fork, args=(statuses,)) for _ in range(THREADS)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print("children", len(statuses), sorted(set(statuses)), flush=True)
    print("beside", sum(count > 0 for count in beside_the_probe), flush=True)
    input()
    print("threads", len(os.listdir("/proc/self/task")), flush=True)
"""


MAY_BE_LATE = 8
"""In how many of 48 forks the probe may still run: none waits for its thread longer than half a second."""


def test_threads_that_fork_at_the_same_time_leave_nothing_behind(python: Python) -> None:
    child = python.start(FORKING_THREADS, "8", "6")
    child.expect("ready")
    with child.attach() as client:
        client.subscribe(0.1)
        child.say("fork")
        assert child.expect("children") == "48 [0]"
        assert int(child.expect("beside")) <= MAY_BE_LATE
        assert client.look().inventory is None
        child.say("count")
        assert child.expect("threads") == "2"
    assert (child.ended(), child.errors) == (0, "")


FORKING_BESIDE = """
    import gc, os, signal, threading

    signal.signal(signal.SIGUSR1, lambda *_: None)  # the child's interpreter goes through its queue after a signal
    os.register_at_fork(after_in_child=lambda: signal.raise_signal(signal.SIGUSR1))
    import gputui.probe as probe
    from gputui.probe import lifecycle

    parent, begun = os.getpid(), []
    gc.callbacks.append(lambda phase, info: begun.append(os.getpid()))

    def fork():
        while not lifecycle._running.server or not lifecycle._running.server._main_thread._pending.is_queued:
            pass
        child = os.fork()
        if child == 0:
            for _ in range(1000):
                pass
            os._exit(os.getpid() in begun)
        print("child", os.waitpid(child, 0)[1], flush=True)
        done.set()

    done, lock = threading.Event(), threading.Lock()
    lock.acquire()
    threading.Thread(target=fork).start()
    print("ready", flush=True)
    threading.Thread(target=lambda: (done.wait(), lock.release())).start()
    lock.acquire()  # waits in C, and comes back to Python once the child has ended
    print("collected", parent in begun, flush=True)
    input()
"""


def test_a_child_does_not_run_what_a_viewer_has_asked_of_its_parent(python: Python) -> None:
    child = python.start(FORKING_BESIDE)
    child.expect("ready")
    with child.attach() as client:
        result = client.run_action(ActionName.COLLECT, wait_s=60.0)
    assert child.expect("child") == "0"
    assert child.expect("collected") == "True"
    assert result.reason == ""


MULTIPROCESSING = """
    import gputui.probe as probe, multiprocessing, os, sys

    def report(queue):
        is_own = os.path.basename(probe.status()).startswith(f"{os.getpid()}-")  # forkserver's children import this
        status = "its own" if is_own else probe.status().partition(":")[0]
        queue.put((status, len(os.listdir("/proc/self/task"))))
        queue.close()
        queue.join_thread()

    if __name__ == "__main__":
        context = multiprocessing.get_context(sys.argv[1])
        print("ready", flush=True)
        input()
        queue = context.Queue()
        children = [context.Process(target=report, args=(queue,)) for _ in range(4)]
        for child in children: child.start()
        print("reports", sorted(queue.get() for _ in children), flush=True)
        for child in children: child.join()
        print("exits", [child.exitcode for child in children], flush=True)
        input()
"""


@pytest.mark.parametrize(("method", "status"), [("fork", ("forked", 1)), ("forkserver", ("its own", 2))])
def test_children_of_multiprocessing_never_answer_for_their_parent(
    python: Python, sockets: Path, method: str, status: tuple[str, int]
) -> None:
    child = python.start(MULTIPROCESSING, method)
    child.expect("ready")
    with child.attach() as client:
        client.subscribe(0.1)
        child.say("begin")
        assert child.expect("reports") == str([status] * 4)
        assert child.expect("exits") == "[0, 0, 0, 0]"
        assert client.statistics().devices == ()
    child.say("end")
    assert (child.ended(), child.errors) == (0, "")
    path = python.start(WAITING).expect("ready")  # multiprocessing's children end without `atexit`: this removes theirs
    assert [str(left) for left in sockets.iterdir()] == [path]
