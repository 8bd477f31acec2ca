"""The process source with real processes; only the uses that NVML would report are made by hand."""

import os
import pwd
import signal
import sys
from pathlib import Path

import psutil
import pytest

from gputui.model.machine.device import DeviceLook, DeviceUse
from gputui.model.machine.process import Identity, ProcessState
from gputui.model.reading import Absent
from gputui.sources.processes import ProcessSource
from gputui.sources.procfs import ProcFs
from gputui.units import MIB
from tests.hanging import wait_until
from tests.sources.children import (
    AS_NOBODY,
    BUSY,
    IDLE,
    ZOMBIE,
    as_nobody,
    in_namespace,
    look_at,
    running,
)

ME = next((user.pw_name for user in pwd.getpwall() if user.pw_uid == os.getuid()), str(os.getuid()))


def source(**options) -> ProcessSource:
    return ProcessSource(in_private_namespace=False, **options)


def test_a_process_has_its_user_command_and_start_time():
    with running(IDLE, "--lr", "3e-4") as child:
        (process,) = look_at(source(), child.pid)
        started = psutil.Process(child.pid).create_time()
    assert process.user == ME
    assert isinstance(process.command, str)
    assert process.command.endswith("--lr 3e-4")
    assert process.identity.started == pytest.approx(
        started, abs=1.5
    )  # the kernel tells when it was booted in whole seconds
    assert process.parent_pid == os.getpid()
    assert isinstance(process.rss_bytes, int)
    assert process.rss_bytes > MIB
    assert process.workers is None
    assert process.rank is None


def test_a_process_on_several_devices_is_one_row():
    with running(IDLE) as child:
        uses = tuple(DeviceUse(f"GPU-{index}", child.pid, "C", index * MIB) for index in range(3))
        (process,) = source().read(DeviceLook(uses=uses)).processes
    assert process.uses == uses


def test_cpu_percent_starts_at_the_second_look():
    now = [100.0]
    proc = ProcFs()
    with running(BUSY) as child:
        watcher = source(clock=lambda: now[0])
        (first,) = look_at(watcher, child.pid)
        cpu_s = proc.stat(child.pid).cpu_s
        wait_until(lambda: proc.stat(child.pid).cpu_s > cpu_s + 0.2)
        os.kill(child.pid, signal.SIGSTOP)
        wait_until(lambda: proc.stat(child.pid).letter == "T")
        now[0] += 2.0
        (second,) = look_at(watcher, child.pid)
        now[0] += 2.0
        (third,) = look_at(watcher, child.pid)
    assert isinstance(first.cpu_percent, Absent)
    assert second.cpu_percent >= 100 * 0.2 / 2.0
    assert third.cpu_percent == 0.0
    assert third.state is ProcessState.STOPPED


@pytest.mark.root
def test_a_process_of_another_user_shows_that_user():
    with running(AS_NOBODY + IDLE) as child:
        (process,) = look_at(source(), child.pid)
    assert process.user == "nobody"


@pytest.mark.root
def test_an_unprivileged_user_sees_the_owner_of_a_process():
    with running(IDLE, "train.py", RANK="0", WORLD_SIZE="2") as child:
        (process,) = as_nobody(lambda: look_at(source(), child.pid))
    assert process.user == "root"
    assert process.command.endswith("train.py")
    assert process.rank is None  # only root can read the environment


def test_a_zombie_keeps_the_command_it_had():
    code = ZOMBIE.replace("os._exit(0)", "(open(os.environ['GATE']).read(), os._exit(0))")
    gate = Path(f"/dev/shm/gputui-test-{os.getpid()}")
    os.mkfifo(gate)
    try:
        with running(code, "train.py", GATE=str(gate)) as parent:
            pid = int(parent.words[0])
            watcher = source()
            (alive,) = look_at(watcher, pid)
            gate.write_text("end")
            wait_until(lambda: ProcFs().stat(pid).letter == "Z")
            (zombie,) = look_at(watcher, pid)
    finally:
        gate.unlink()
    assert alive.command.endswith("train.py")
    assert zombie.state is ProcessState.ZOMBIE
    assert (zombie.identity, zombie.command, zombie.user) == (alive.identity, alive.command, alive.user)


def test_a_zombie_never_seen_alive_shows_its_name_in_brackets():
    with running(ZOMBIE) as parent:
        pid = int(parent.words[0])
        wait_until(lambda: ProcFs().stat(pid).letter == "Z")
        (zombie,) = look_at(source(), pid)
    assert zombie.state is ProcessState.ZOMBIE
    assert zombie.command == f"[{Path(sys.executable).name}]"


def test_a_vanished_process_keeps_its_user_and_command():
    watcher = source()
    with running(IDLE, "train.py") as child:
        (alive,) = look_at(watcher, child.pid)
    (gone,) = look_at(watcher, child.pid)
    assert gone.state is ProcessState.VANISHED
    assert (gone.identity, gone.command, gone.user) == (alive.identity, alive.command, alive.user)
    assert gone.rss_bytes == Absent("the process has ended")
    assert look_at(watcher, child.pid) == (gone,)


def test_a_process_that_was_never_seen_has_no_start_time():
    with running(IDLE) as child:
        pass
    (gone,) = look_at(source(), child.pid)
    assert gone.state is ProcessState.VANISHED
    assert gone.identity == Identity(child.pid, None)
    assert gone.user == Absent("the process has ended")


@pytest.mark.parametrize("pid", [2**31, 2**32 - 1])
def test_an_impossible_pid_is_a_vanished_process(pid):
    (process,) = look_at(source(), pid)
    assert process.state is ProcessState.VANISHED


def test_a_command_line_cannot_move_the_cursor():
    with running(IDLE, "\x1b[2J", "--name=a\nb") as child:
        (process,) = look_at(source(), child.pid)
    assert process.command.isprintable()
    assert process.command.endswith(r"\x1b[2J --name=a\nb")


def test_a_command_that_changes_is_read_again():
    code = "import os, signal; signal.signal(signal.SIGUSR1, lambda *_: os.execvp('sleep', ['sleep', '599'])); "
    with running(code + IDLE) as child:
        now = [1.0]
        watcher = source(clock=lambda: now[0])
        (before,) = look_at(watcher, child.pid)
        os.kill(child.pid, signal.SIGUSR1)
        wait_until(lambda: Path(f"/proc/{child.pid}/cmdline").read_bytes() == b"sleep\x00599\x00")
        now[0] += 40.0  # a command is read again after half a minute
        (after,) = look_at(watcher, child.pid)
    assert after.identity == before.identity
    assert before.command != after.command == "sleep 599"


def test_processes_with_a_probe_are_asked_for_once_at_each_look():
    asked = []
    with running(IDLE) as child, running(IDLE) as other:

        def pids_with_probes() -> frozenset[int]:
            asked.append(child.pid)
            return frozenset({child.pid})

        processes = look_at(source(pids_with_probes=pids_with_probes), child.pid, other.pid)
    assert [process.has_probe for process in processes] == [True, False]
    assert asked == [child.pid]


@pytest.mark.root
def test_a_reused_pid_is_a_new_process():
    script = """
import os, signal, time
from gputui.model.machine.device import DeviceLook, DeviceUse
from gputui.sources.processes import ProcessSource
from gputui.sources.procfs import ProcFs
from gputui.sources.procfs_formats import TICKS_PER_S

def start():
    return os.fork() or signal.pause()

def look(pid):
    return source.read(DeviceLook(uses=(DeviceUse("GPU-0", pid, "C", 1),))).processes[0]

source = ProcessSource(in_private_namespace=False)
first = start()
one = look(first)
one = look(first)
os.kill(first, signal.SIGKILL)
os.waitpid(first, 0)
time.sleep(2 / TICKS_PER_S)
with open("/proc/sys/kernel/ns_last_pid", "w") as last:
    last.write(str(first - 1))
second = start()
two = look(second)
os.kill(second, signal.SIGKILL)
print(first == second, one.identity != two.identity, two.cpu_percent.reason)
"""
    # In a PID namespace of its own no other process can take the PID.
    printed = in_namespace("--pid", "--fork", "--mount-proc", script=script)
    assert printed == "True True known from the second look on\n"


@pytest.mark.root
def test_a_process_hidden_by_hidepid_is_hidden_rather_than_vanished(tmp_path):
    script = f"""
import os, subprocess, sys
from pathlib import Path
from gputui.model.machine.device import DeviceLook, DeviceUse
from gputui.model.machine.process import Identity
from gputui.sources.processes import ProcessSource

subprocess.run(["mount", "-t", "proc", "-o", "hidepid=2", "proc", {str(tmp_path)!r}], check=True)
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
source = ProcessSource(Path({str(tmp_path)!r}), in_private_namespace=False)
process = source.read(DeviceLook(uses=(DeviceUse("GPU-0", 1, "C", 1),))).processes[0]
print(process.state.name, process.user.reason)
"""
    printed = in_namespace("--mount", script=script)
    assert printed == "HIDDEN hidden: /proc is mounted with hidepid\n"
