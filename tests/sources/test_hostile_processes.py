"""Processes that make the monitor's work as hard as they can; counts reads, bytes and entries, never time."""

from __future__ import annotations

import os
import resource
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from gputui.model.machine.device import Device, DeviceLook, DeviceMemory, DeviceUse
from gputui.model.machine.process import Identity, ProcessState
from gputui.model.reading import Absent
from gputui.sources import procfs
from gputui.sources.probe import listing
from gputui.sources.probe.listing import CannotAttachError
from gputui.sources.processes import ProcessSource
from gputui.sources.processes.details import DESCENDANTS_AT_MOST
from gputui.sources.processes.family import ANCESTORS_AT_MOST, Family
from gputui.sources.procfs import COMMAND_BYTES, DETAIL_BYTES, ProcFs
from gputui.sources.signals import SignalRefused, send_signal
from gputui.units import GIB, MIB
from tests.hanging import wait_until
from tests.scale import SCALE, scaled, sized
from tests.sources.children import IDLE, look_at, running
from tests.sources.false_proc import CONTROL, NAMES, FalseProc

FIRST = 900_000_000
"""PIDs that no kernel gives: a signal sent to one by mistake would reach nobody."""
CROWD = sized(800, 5000)


@pytest.fixture
def proc(tmp_path: Path) -> FalseProc:
    return FalseProc(tmp_path / "proc")


class Reads:
    """Counts the files of /proc that are read, and their bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files = self.bytes = 0
        read_file = procfs.read_file

        def counted(path: str, *most_bytes: int) -> bytes:
            data = read_file(path, *most_bytes)
            self.files += 1
            self.bytes += len(data)
            return data

        monkeypatch.setattr(procfs, "read_file", counted)

    def take(self) -> tuple[int, int]:
        """The files and bytes since the last call."""
        counts = self.files, self.bytes
        self.files = self.bytes = 0
        return counts


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


def source(proc: FalseProc, now: list[float] | None = None) -> ProcessSource:
    clock = (lambda: now[0]) if now else (lambda: 0.0)
    return ProcessSource(proc.root, in_private_namespace=False, clock=clock)


def uses(*pids: int) -> DeviceLook:
    return DeviceLook(uses=tuple(DeviceUse("GPU-0", pid, "C", MIB) for pid in pids))


def test_a_command_line_of_a_megabyte_is_read_in_part(reads: Reads) -> None:
    arguments = ["x" * 100_000 + "\x1b]0;owned\x07"] * 10
    watcher = ProcessSource(in_private_namespace=False)
    with running(IDLE, *arguments) as child:
        (process,) = look_at(watcher, child.pid)
        reads.take()
        details = watcher.details(process.identity)
        assert len(Path(f"/proc/{child.pid}/cmdline").read_bytes()) > 1_000_000
    assert isinstance(process.command, str)
    assert len(process.command.encode()) == COMMAND_BYTES + len("…".encode())
    assert process.command.endswith("…")
    assert process.command.isprintable()
    assert isinstance(details.command_line, tuple)
    assert len(" ".join(details.command_line)) < 2 * DETAIL_BYTES
    assert reads.take()[1] < 4 * DETAIL_BYTES


def test_a_command_line_at_the_limit_is_whole(proc: FalseProc) -> None:
    proc.add(FIRST, command=b"x" * COMMAND_BYTES)
    assert ProcFs(proc.root).arguments(FIRST) == ("x" * COMMAND_BYTES,)


def test_an_environment_of_megabytes_is_read_in_part_and_says_so() -> None:
    variables = {f"V{number}": "x" * 50_000 for number in range(30)}
    with running(IDLE, **variables) as child:
        environment = tuple(ProcFs().environment(child.pid))
        assert len(ProcFs().variables(child.pid)) == len(environment) - 1
    *whole, (name, sentence) = environment
    assert name == "…"
    assert "more than 128 KiB" in sentence
    assert all(len(value) == 50_000 for key, value in whole if key in variables)
    assert sum(len(key) + len(value) for key, value in whole) < DETAIL_BYTES


def test_a_rank_of_thousands_of_digits_is_no_rank() -> None:
    with running(IDLE, RANK="0" * 5000, WORLD_SIZE="9" * 5000) as child:
        (process,) = look_at(ProcessSource(in_private_namespace=False), child.pid)
    assert process.rank is None


@pytest.mark.parametrize("name", NAMES)
def test_any_name_and_any_folder_are_read(proc: FalseProc, name: bytes) -> None:
    proc.add(FIRST, name=name, command=b"")
    watcher = source(proc)
    (process,) = watcher.read(uses(FIRST)).processes
    assert process.parent_pid == 1
    assert process.command == f"[{name.decode(errors='replace')}]"
    details = watcher.details(process.identity)
    assert isinstance(details.working_directory, str)
    assert details.tree[-1].identity == process.identity


@pytest.mark.long
def test_a_crowd_of_processes_costs_a_fixed_number_of_reads_each(proc: FalseProc, reads: Reads) -> None:
    pids = range(FIRST, FIRST + CROWD)
    for pid in pids:
        proc.add(pid, is_bare=True)
    now = [1.0]
    watcher = source(proc, now)
    look = watcher.read(uses(*pids))
    assert len(look.processes) == CROWD
    assert reads.take()[0] < 8 * CROWD
    now[0] += 1.0
    watcher.read(uses(*pids))
    assert reads.take()[0] < 2 * CROWD


@pytest.mark.long
def test_a_chain_of_processes_costs_no_square_of_its_length(proc: FalseProc) -> None:
    rank = b"RANK=0\0WORLD_SIZE=2\0"
    pids = range(FIRST, FIRST + CROWD)
    for pid in pids:
        proc.add(pid, parent=pid - 1, environment=rank, is_bare=True)
    family = Family(ProcFs(proc.root))
    family.refresh()
    assert max(len(list(family.ancestors(pid))) for pid in pids) == ANCESTORS_AT_MOST
    watcher = source(proc)
    look = watcher.read(uses(*pids))
    details = watcher.details(look.processes[0].identity)
    assert len(details.tree) <= 1 + ANCESTORS_AT_MOST + DESCENDANTS_AT_MOST
    assert details.unshown_descendants == CROWD - 1 - DESCENDANTS_AT_MOST


def test_a_ring_of_parents_ends(proc: FalseProc) -> None:
    """A list of PIDs does not show that a PID was used again, so parents can be of different moments."""
    for pid in range(3):
        proc.add(FIRST + pid, parent=FIRST + (pid + 1) % 3)
    family = Family(ProcFs(proc.root))
    family.refresh()
    assert sorted(family.descendants(FIRST)) == [(FIRST + 1, 2), (FIRST + 2, 1)]
    assert list(family.ancestors(FIRST)) == [FIRST + 1, FIRST + 2]


@pytest.mark.long
def test_thousands_that_come_and_go_are_read_once_and_forgotten(proc: FalseProc, reads: Reads, record_property) -> None:
    crowd, now = sized(100, 300), [1.0]
    watcher = source(proc, now)
    record_property("count", f"{crowd * 4 * SCALE} processes")
    for second in range(4 * SCALE):
        pids = range(FIRST + second * crowd, FIRST + (second + 1) * crowd)
        for pid in pids:
            proc.add(pid, is_bare=True)
        processes = watcher.read(uses(*pids)).processes
        assert all(process.state is ProcessState.SLEEPING for process in processes)
        assert reads.take()[0] < 8 * crowd
        for pid in pids:
            proc.remove(pid)
        gone = watcher.read(uses(*pids)).processes
        assert {process.state for process in gone} == {ProcessState.VANISHED}
        assert reads.take()[0] == 0
        now[0] += 1.0
    assert len(watcher._last) == crowd
    assert watcher._descriptions._descriptions == {}


@pytest.mark.long
def test_memory_of_many_ended_processes_names_a_few(proc: FalseProc) -> None:
    pids = range(FIRST, FIRST + CROWD)
    device = Device(0, "GPU-0", "H100", "", memory=DeviceMemory(80 * GIB, 70 * GIB, 10 * GIB, 0))
    look = uses(*pids)._replace(devices=(device,))
    (rest,) = source(proc).read(look).unattributed
    assert f"and {CROWD - 8:,} more" in rest.cause
    assert len(rest.cause) < 300


@pytest.mark.root
def test_processes_hidden_by_hidepid_are_shown_as_hidden() -> None:
    script = (
        "import os; from gputui.sources.processes import ProcessSource\n"
        "from gputui.model.machine.device import DeviceLook, DeviceUse\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "look = DeviceLook(uses=tuple(DeviceUse('GPU-0', pid, 'C', 1) for pid in (1, PID)))\n"
        "processes = ProcessSource(in_private_namespace=False).read(look).processes\n"
        "print(*(process.state.value for process in processes), sep='\\n')"
    )
    with running(IDLE) as child:
        command = f'mount -t proc -o hidepid=2 proc /proc && exec {shlex.quote(sys.executable)} -c "$CODE"'
        result = subprocess.run(
            ["unshare", "--mount", "sh", "-c", command],
            env={**os.environ, "CODE": script.replace("PID", str(child.pid)), "PYTHONPATH": str(Path.cwd())},
            capture_output=True,
            text=True,
            check=False,
        )
    assert result.stdout.split("\n")[:2] == [ProcessState.HIDDEN.value] * 2, result.stderr


@pytest.mark.long
def test_files_of_any_content_that_vanish_at_any_moment_raise_nothing(proc: FalseProc, record_property) -> None:
    """Files that are missing, empty, cut, folders or noise: what a sandbox, or a race with the kernel, could show."""
    random, pids, now = Random(7), range(FIRST, FIRST + 10), [1.0]
    looks = scaled(30, 60)
    record_property("count", f"{looks} looks")
    states = set()
    for number in range(looks):
        if number % 4 == 0:
            watcher = source(proc, now)
        for pid in pids:
            parent = random.choice(pids)
            command = random.choice((b"", CONTROL, b"x\0" + CONTROL))
            proc.add(pid, parent=parent, name=random.choice(NAMES), command=command, environment=b"RANK=" + CONTROL)
            if random.random() < 0.5:
                proc.spoil(pid, random)
        now[0] += random.choice((0.0, 1.0, 40.0))
        for process in watcher.read(uses(*pids)).processes:
            states.add(process.state)
            details = watcher.details(process.identity)
            assert isinstance(details.threads, (int, Absent))
    assert {ProcessState.SLEEPING, ProcessState.VANISHED, ProcessState.UNREADABLE} <= states


def test_a_file_of_unknown_form_is_a_reason(proc: FalseProc) -> None:
    proc.add(FIRST)
    watcher = source(proc)
    (proc.root / str(FIRST) / "status").write_bytes(b"no field")
    (process,) = watcher.read(uses(FIRST)).processes
    assert process.user == Absent("cannot be read: its form is unknown")
    (proc.root / str(FIRST) / "stat").write_bytes(b"no field")
    (process,) = watcher.read(uses(FIRST)).processes
    assert process.identity == Identity(FIRST, 1763640000.0 + FIRST / os.sysconf("SC_CLK_TCK"))
    assert process.state is ProcessState.UNREADABLE
    assert process.rss_bytes == Absent("cannot be read: its form is unknown")


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """Let this process open no file: each attempt fails with EMFILE."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_without_file_descriptors_readings_are_absent_with_the_reason():
    reason = Absent("cannot be read: Too many open files")
    with running(IDLE) as child:
        now = [1.0]
        watcher = ProcessSource(clock=lambda: now[0])
        wait_until(lambda: look_at(watcher, child.pid)[0].state is ProcessState.SLEEPING)
        (before,) = look_at(watcher, child.pid)
        with no_descriptor_left():
            now[0] += 40.0  # the family and the descriptions are due
            (process,) = look_at(watcher, child.pid)
            details = watcher.details(before.identity)
            with pytest.raises(SignalRefused, match="Too many open files"):
                send_signal(before.identity, signal.SIGTERM)
            with pytest.raises(CannotAttachError, match="Too many open files"):
                listing.attach(child.pid)
            (stranger,) = look_at(ProcessSource(), child.pid)
        (after,) = look_at(watcher, child.pid)
    assert process.state is ProcessState.UNREADABLE
    assert (process.identity, process.user, process.command) == (before.identity, before.user, before.command)
    assert process.cpu_percent == process.rss_bytes == reason
    assert details.threads == details.environment == reason
    assert stranger.command == reason
    assert (after.state, after.identity) == (before.state, before.identity)
