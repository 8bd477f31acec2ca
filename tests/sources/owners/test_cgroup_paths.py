"""What control groups tell of a process's owner: a recorded file of each system, and real groups of the kernel."""

from __future__ import annotations

import uuid
from pathlib import Path
from random import Random

import pytest

from gputui.model.machine.owner import Owner
from gputui.sources.owners.cgroup_paths import owner_in
from gputui.sources.procfs import ProcFs
from tests.sources.children import IDLE, running
from tests.sources.owners.control_groups import FIRST, SECOND, made

RECORDED = Path(__file__).parents[2] / "data" / "cgroups"

CONTAINER = "4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970"
POD = "3c1f9a52-7d1e-4a0b-9d0e-5f3a2b1c0d9e"
IN_POD = Owner(pod=POD, container=CONTAINER)

OWNERS = {
    "slurm-v1": Owner(job="4711", step="0"),
    "slurm-v1-several-daemons": Owner(job="4711", step="batch"),
    "slurm-22.05-as-it-is": Owner(job="1", step="0"),
    "slurm-v2": Owner(job="4711", step="0"),
    "slurm-v2-batch": Owner(job="4711", step="batch"),
    "slurm-v2-several-daemons": Owner(job="4711", step="3"),
    "kubernetes-v1-cgroupfs": IN_POD,
    "kubernetes-v1-containerd": IN_POD._replace(runtime="containerd"),
    "kubernetes-v1-docker": IN_POD._replace(runtime="docker"),
    "kubernetes-v2-containerd": IN_POD._replace(runtime="containerd"),
    "kubernetes-v2-crio": IN_POD._replace(runtime="CRI-O"),
    "kubernetes-static-pod": IN_POD._replace(pod=POD.replace("-", ""), runtime="containerd"),
    "kubernetes-seen-from-a-sibling": IN_POD._replace(runtime="containerd"),
    "docker-v1": Owner(container=CONTAINER, runtime="docker"),
    "docker-v2": Owner(container=CONTAINER, runtime="docker"),
    "podman-rootless": Owner(container=CONTAINER, runtime="podman"),
    "podman-service": Owner(container=CONTAINER, runtime="podman", unit="train.service"),
    "containerd-nerdctl": Owner(container=CONTAINER, runtime="nerdctl"),
    "systemd-service": Owner(unit="ollama.service"),
    "systemd-user-service": Owner(unit="train.service"),
    "systemd-session": Owner(),
    "tmux-scope": Owner(),
    "forged-below-user-manager": Owner(),
    "plain-v1": Owner(),
    "plain-v2": Owner(),
}


@pytest.mark.parametrize("system", OWNERS)
def test_the_owner_in_a_recorded_file(system):
    assert owner_in((RECORDED / system).read_text()) == OWNERS[system]


def test_every_recorded_file_has_its_owner():
    assert {path.name for path in RECORDED.iterdir()} - {"README.md"} == OWNERS.keys()


def test_a_group_that_has_been_removed_is_still_told():
    text = (RECORDED / "slurm-v2").read_text().replace("\n", " (deleted)\n")
    assert owner_in(text) == OWNERS["slurm-v2"]


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_no_owner_and_no_error(seed):
    random = Random(seed)
    words = [
        "/",
        ":",
        "job_",
        "9" * 500,
        "slurm",
        "pod",
        "kubepods",
        ".service",
        "a" * 70_000,
        "\0",
        "\x1b[2J",
        "\n",
        "é",
    ]
    owner = owner_in("".join(random.choice(words) for _ in range(400)))
    assert all(len(value) <= 260 and value.isprintable() for value in owner if value)


NUMBER = uuid.uuid4().int
OWN = f"gputui-{NUMBER:x}"
"""No other test makes a folder of this name."""
REAL = {
    "Slurm, second version": (
        SECOND,
        f"{OWN}-2/slurmstepd.scope/job_{NUMBER % 10**9}/step_2/user/task_0",
        Owner(job=str(NUMBER % 10**9), step="2"),
    ),
    "Slurm, first version": (
        FIRST,
        f"slurm_{OWN}/uid_0/job_{NUMBER % 10**9}/step_2/task_0",
        Owner(job=str(NUMBER % 10**9), step="2"),
    ),
    "docker, first version": (
        FIRST,
        f"{OWN}-docker/docker/{NUMBER:064x}",
        Owner(container=f"{NUMBER:064x}", runtime="docker"),
    ),
    "Kubernetes, second version": (
        SECOND,
        f"{OWN}-kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/crio-{NUMBER:064x}.scope",
        Owner(pod=POD, container=f"{NUMBER:064x}", runtime="CRI-O"),
    ),
    "systemd": (SECOND, f"{OWN}.slice/{OWN}.service", Owner(unit=f"{OWN}.service")),
}
"""A mount, a path below it, and the owner of a process in there."""


@pytest.mark.root
@pytest.mark.parametrize(
    ("hierarchy", "path", "owner"),
    [
        pytest.param(*case, id=name, marks=pytest.mark.needs(str(case[0] / "cgroup.procs")))
        for name, case in REAL.items()
    ],
)
def test_a_process_in_a_real_control_group_has_its_owner(hierarchy, path, owner):
    with made(hierarchy / path) as group, running(IDLE) as child:
        (group / "cgroup.procs").write_text(str(child.pid))
        assert owner_in(ProcFs().control_groups(child.pid)) == owner
