"""Containers: NVML reports the host's PIDs, and the monitor must not take them for local processes."""

import json
import os

import pytest

from gputui.model.machine.process import ProcessState
from gputui.sources.processes import ProcessSource
from gputui.sources.processes.namespace import is_private
from gputui.sources.procfs import PID_MAX, ProcFs
from tests.hanging import wait_until
from tests.sources.children import AS_NOBODY, IDLE, as_nobody, in_namespace, look_at, on_device, running

MISSING = PID_MAX + 1

USES_DRIVER = (
    "import mmap, os; file = open(os.environ['LIBRARY'], 'r+b'); map = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE); "
)


@pytest.fixture
def library(tmp_path):
    path = tmp_path / "libcuda.so.1"
    path.write_bytes(bytes(4096))
    return str(path)


@pytest.mark.parametrize(
    ("link", "expected"),
    [("pid:[4026531836]", False), ("pid:[4026532178]", True), (None, False)],
    ids=["the machine's own", "a container's", "unreadable"],
)
def test_a_private_namespace_is_detected_by_its_inode_number(tmp_path, link, expected):
    (tmp_path / "self/ns").mkdir(parents=True)
    if link:
        (tmp_path / "self/ns/pid").symlink_to(link)
    assert is_private(ProcFs(tmp_path)) is expected


@pytest.mark.root
def test_host_pids_are_elsewhere_in_a_real_container():
    script = f"""
import json, os
from gputui.model.machine.device import DeviceLook, DeviceUse
from gputui.sources.processes import ProcessSource
uses = tuple(DeviceUse("GPU-0", pid, "C", 1) for pid in (os.getpid(), {MISSING}))
look = ProcessSource().read(DeviceLook(uses=uses))
print(json.dumps([[process.state.name for process in look.processes], look.problem]))
"""
    states, problem = json.loads(in_namespace("--pid", "--fork", "--mount-proc", script=script))
    assert states == ["ELSEWHERE", "ELSEWHERE"]  # PID 1 exists here too, but maps no driver library
    assert "2 processes" in problem
    assert "--pid=host" in problem


def test_a_local_process_with_the_same_pid_is_not_shown_as_the_hosts():
    with running(IDLE) as child:
        (process, _) = look_at(ProcessSource(in_private_namespace=True), child.pid, MISSING)
    assert process.state is ProcessState.ELSEWHERE
    assert process.identity.started is None
    assert process.user == process.command == process.rss_bytes


def test_pids_are_trusted_if_local_processes_map_the_driver(library):
    with running(USES_DRIVER + IDLE, LIBRARY=library) as user, running(IDLE) as bystander:
        look = ProcessSource(in_private_namespace=True).read(on_device(user.pid, MISSING, bystander.pid))
    assert [process.state for process in look.processes] == [
        ProcessState.SLEEPING,
        ProcessState.VANISHED,
        ProcessState.ELSEWHERE,
    ]


def test_a_process_that_ends_in_a_container_has_vanished(library):
    source = ProcessSource(in_private_namespace=True)
    with running(USES_DRIVER + IDLE, LIBRARY=library) as child:
        (alive,) = look_at(source, child.pid)
    (gone,) = look_at(source, child.pid)
    assert gone.state is ProcessState.VANISHED
    assert gone.identity == alive.identity


@pytest.mark.root
@pytest.mark.parametrize(
    ("others", "expected"),
    [((), ProcessState.SLEEPING), ((MISSING,), ProcessState.ELSEWHERE)],
    ids=["alone", "among PIDs that do not exist here"],
)
def test_an_unreadable_process_is_judged_by_the_other_pids(others, expected):
    with running(IDLE) as child:
        wait_until(lambda: ProcFs().stat(child.pid).letter == "S")
        process, *_ = as_nobody(lambda: look_at(ProcessSource(in_private_namespace=True), child.pid, *others))
    assert process.state is expected


@pytest.mark.root
def test_processes_on_the_host_need_no_mapped_driver():
    with running(AS_NOBODY + IDLE) as child:
        look = ProcessSource(in_private_namespace=False).read(on_device(child.pid, os.getpid()))
    assert look.problem is None
    assert all(process.identity.started for process in look.processes)
