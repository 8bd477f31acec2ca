"""The details of a process, read from real processes."""

import ctypes
import os
import platform
import signal
import sys
from pathlib import Path

import pytest

from gputui.model.machine.process import Identity, ProcessState
from gputui.model.reading import Absent
from gputui.sources.processes import ProcessSource
from gputui.sources.procfs import ProcFs
from gputui.units import MIB
from tests.hanging import wait_until
from tests.sources.children import FAMILY, IDLE, SHARED_MIB, WORKERS, ZOMBIE, as_nobody, running

PTRACE_SEIZE = 0x4206
PTRACE_INTERRUPT = 0x4207
PTRACE_DETACH = 17


def identity_of(pid: int) -> Identity:
    return Identity(pid, ProcFs().stat(pid).started)


def details_of(pid: int, source: ProcessSource | None = None):
    return (source or ProcessSource()).details(identity_of(pid))


def test_details_include_executable_folder_command_and_environment(tmp_path):
    code = f"import os; os.chdir({str(tmp_path)!r}); " + IDLE
    with running(code, "train.py", wrapper=("env", "-i", "B=2", "A=1=1", "C=")) as child:
        details = details_of(child.pid)
    assert details.environment == (("B", "2"), ("A", "1=1"), ("C", ""))
    assert details.working_directory == str(tmp_path)
    assert details.executable == str(Path(sys.executable).resolve())
    assert details.command_line[-1] == "train.py"
    assert details.threads == 1
    assert details.open_files >= 3
    assert details.swap_bytes == 0


def test_the_process_tree_includes_all_ancestors_and_descendants():
    with running(FAMILY) as child:
        source = ProcessSource()
        first, second = details_of(child.pid, source).tree, details_of(child.pid, source).tree
        above = next(entry for entry in first if entry.identity.pid == os.getpid())
    place = [entry.identity.pid for entry in first].index(child.pid)
    below = first[place + 1 :]
    assert first[0].depth == 0
    assert [entry.depth for entry in first[: place + 1]] == list(range(place + 1))
    assert above.depth == first[place].depth - 1
    assert sorted(entry.identity.pid for entry in below) == sorted(map(int, child.words))
    assert {entry.depth for entry in below} == {first[place].depth + 1}
    assert all(isinstance(entry.cpu_percent, Absent) for entry in first)
    assert all(isinstance(entry.cpu_percent, float) for entry in second)
    assert below[0].command == first[place].command


def test_shared_memory_is_separate_from_private_memory():
    with running(FAMILY) as child:
        details = details_of(child.pid)
    assert details.pss_bytes < (SHARED_MIB / (WORKERS + 1) + 60) * MIB
    assert details.shared_bytes > SHARED_MIB * MIB


def test_io_rates_start_at_the_second_look(tmp_path):
    code = (
        "import os, signal\n"
        f"def write(*_):\n    file = open({str(tmp_path / 'checkpoint')!r}, 'wb')\n"
        f"    file.write(bytes({8 * MIB}))\n    file.close()\n"
        "signal.signal(signal.SIGUSR1, write)\nprint('ready', flush=True)\nwhile True: signal.pause()"
    )
    now = [100.0]
    with running(code) as child:
        source = ProcessSource(clock=lambda: now[0])
        first = details_of(child.pid, source)
        os.kill(child.pid, signal.SIGUSR1)
        wait_until(lambda: int(Path(f"/proc/{child.pid}/io").read_bytes().split()[3]) >= 8 * MIB)
        now[0] += 2.0
        second = details_of(child.pid, source)
        storage = int(Path(f"/proc/{child.pid}/io").read_bytes().split(b"\nwrite_bytes:")[1].split()[0])
    assert first.write_bytes_per_s == Absent("known from the second look on")
    assert second.write_bytes_per_s == pytest.approx(storage / 2.0)
    assert second.read_bytes_per_s >= 0.0


WAITING = {
    "asleep": ("import time; print('ready', flush=True); time.sleep(600)", "time to pass (clock_nanosleep)"),
    "a pipe": ("import os; r, w = os.pipe(); print('ready', flush=True); os.read(r, 1)", "data from pipe:["),
    "a lock": (
        "import threading; print('ready', flush=True); lock = threading.Lock(); lock.acquire(); lock.acquire()",
        "another of its threads (a lock, a condition or a result) (futex)",
    ),
    "a child": (
        "import os, signal; child = os.fork() or signal.pause(); print('ready', flush=True); os.waitpid(child, 0)",
        "a child process to end (wait4)",
    ),
    "events": (
        "import select; poll = select.epoll(); print('ready', flush=True); poll.poll()",
        "an event on its files or sockets (epoll_",
    ),
    "a signal": ("import signal; print('ready', flush=True); signal.sigwait({signal.SIGUSR1})", "a signal (rt_sig"),
    "nothing": ("print('ready', flush=True)\nwhile True: pass", "nothing: it runs"),
}


@pytest.mark.parametrize(("code", "words"), WAITING.values(), ids=WAITING)
def test_what_the_main_thread_waits_for_is_described(code, words):
    assert platform.machine() in {"x86_64", "aarch64"}
    with running(code) as child:
        source = ProcessSource()
        wait_until(lambda: str(details_of(child.pid, source).waiting_for).startswith(words))


def test_a_stopped_process_waits_for_sigcont():
    with running(IDLE) as child:
        os.kill(child.pid, signal.SIGSTOP)
        wait_until(lambda: ProcFs().stat(child.pid).letter == "T")
        assert details_of(child.pid).waiting_for == "SIGCONT: it is stopped by a signal"


def test_a_traced_process_waits_for_its_debugger():
    libc = ctypes.CDLL(None, use_errno=True)
    with running(IDLE) as child:
        assert libc.ptrace(PTRACE_SEIZE, child.pid, 0, 0) == 0
        assert libc.ptrace(PTRACE_INTERRUPT, child.pid, 0, 0) == 0
        wait_until(lambda: ProcFs().stat(child.pid).letter == "t")
        waiting_for = details_of(child.pid).waiting_for
        os.kill(child.pid, signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert waiting_for.startswith(f"its debugger, PID {os.getpid()} (")


def test_a_zombie_waits_for_its_parent():
    with running(ZOMBIE) as parent:
        pid = int(parent.words[0])
        wait_until(lambda: ProcFs().stat(pid).letter == "Z")
        details = details_of(pid)
    assert details.waiting_for == f"its parent, PID {parent.pid}, to collect it: it has ended"
    assert details.tree[-1].state is ProcessState.ZOMBIE


@pytest.mark.root
def test_unreadable_details_of_another_users_process_name_the_owner():
    with running(IDLE) as child:
        wait_until(lambda: ProcFs().stat(child.pid).letter == "S")
        details = as_nobody(lambda: details_of(child.pid))
    why = Absent("owned by root: permission denied")
    assert details.environment == why
    assert details.working_directory == why
    assert details.executable == why
    assert details.open_files == why
    assert details.pss_bytes == why
    assert details.write_bytes_per_s == why
    assert details.waiting_for == why
    assert details.threads == 1
    assert details.tree[-1].identity.pid == child.pid


def test_an_ended_process_is_not_confused_with_a_new_one_of_its_pid():
    with running(IDLE) as child:
        identity = identity_of(child.pid)
    gone = ProcessSource().details(identity)
    assert gone.environment == Absent("the process has ended")
    other = ProcessSource().details(Identity(os.getpid(), 1.0))
    assert other.environment == Absent("the process has ended, and its PID is another process now")
    assert other.tree == ()


def test_a_process_of_another_namespace_has_no_details():
    details = ProcessSource().details(Identity(os.getpid(), None))
    assert details.threads == Absent("a process of another PID namespace, or one that ended before it was seen")
