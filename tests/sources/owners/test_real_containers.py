"""Processes in real containers, as runtimes make them: namespaces of their own, and a control group named by theirs.

The container is seen from the machine, where the driver names its processes by the machine's PIDs.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gputui.model.machine.owner import Owner
from gputui.model.machine.process import Process, ProcessState
from gputui.model.reading import value_of
from gputui.sources.nvml import NvmlSource
from gputui.sources.processes import ProcessSource
from gputui.sources.procfs import ProcFs
from tests.conftest import FakeGpus
from tests.hanging import HANGS_S
from tests.plugins.left_out import CONTAINERS
from tests.sources.children import IDLE, running
from tests.sources.owners.control_groups import CGROUPS, FIRST, SECOND, made

NUMBER = uuid.uuid4().hex
OWN, ID = f"gputui-{NUMBER[:12]}", NUMBER * 2
"""No other test makes a group of this name, and the container's ID."""
POD = str(uuid.UUID(NUMBER))
UNIFIED = SECOND if SECOND.exists() else CGROUPS

GROUPS = {
    "docker": (UNIFIED, f"system.slice/docker-{ID}.scope", Owner(container=ID, runtime="docker")),
    "docker, first version": (FIRST, f"docker/{ID}", Owner(container=ID, runtime="docker")),
    "podman of a user": (
        UNIFIED,
        f"user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container",
        Owner(container=ID, runtime="podman"),
    ),
    "Kubernetes": (
        UNIFIED,
        f"kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{ID}.scope",
        Owner(pod=POD, container=ID, runtime="containerd"),
    ),
}
JOINS = 'echo $$ > "$0" && exec "$@"'
"""For sh: enters the group, then becomes the runtime."""
NAMESPACES = ("--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--cgroup", "--uts", "--ipc")


@contextmanager
def container(group: Path) -> Iterator[int]:
    """The PID of the first process of a container, as the machine sees it."""
    with running(IDLE, wrapper=("sh", "-c", JOINS, str(group / "cgroup.procs"), "unshare", *NAMESPACES)) as runtime:
        (inside,) = Path(f"/proc/{runtime.pid}/task/{runtime.pid}/children").read_text().split()
        assert ProcFs().status(int(inside)).inner_pid == 1
        yield int(inside)


@pytest.mark.root
@pytest.mark.needs(CONTAINERS)
@pytest.mark.parametrize(
    ("hierarchy", "path", "owner"),
    [
        pytest.param(*case, id=name, marks=pytest.mark.needs(str(case[0] / "cgroup.procs")))
        for name, case in GROUPS.items()
    ],
)
def test_a_process_of_a_container_that_uses_a_device_has_its_container(
    fake_gpus: FakeGpus, hierarchy: Path, path: str, owner: Owner
) -> None:
    with made(hierarchy / OWN / path) as group, container(group) as pid:
        fake_gpus.process(pid, {0: 300})
        (process,) = looked_at()
        assert process.pid == pid
        assert process.state in {ProcessState.RUNNING, ProcessState.SLEEPING}
        found = value_of(process.owner)
        assert found is not None
        assert (found.container, found.runtime, found.pod) == (owner.container, owner.runtime, owner.pod)
    assert not (hierarchy / OWN).exists()


def looked_at() -> tuple[Process, ...]:
    devices = NvmlSource()
    processes = ProcessSource()
    processes.watch_owners(HANGS_S)
    try:
        return processes.read(devices.read()).processes
    finally:
        devices.close()
