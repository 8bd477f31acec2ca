"""What the paths of a process's control groups tell about its owner, in both versions of the interface.

A process cannot choose these paths in /proc/PID/cgroup, except below its user's service manager (`user@1000.service`),
where users may make groups of any name: jobs and pods are not searched there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gputui.model.machine.owner import Owner

LINES_AT_MOST = 64
"""A machine has about fifteen hierarchies."""
_PARTS_AT_MOST = 64

_JOB = re.compile(r"job_(\d{1,10})", re.ASCII)
_STEP = re.compile(r"step_(\w{1,20})", re.ASCII)
_SLURM = re.compile(r"slurm(?:_.*)?|(?:.*_)?slurmstepd\.scope")
"""Version 1 has a folder `slurm`, or `slurm_NODE` for several daemons on a machine; version 2 has a scope."""

_POD = re.compile(r"(?:.*-)?pod([0-9a-f]{8}(?:[-_]?[0-9a-f]{4}){3}[-_]?[0-9a-f]{12})(?:\.slice)?")
"""The names of both cgroup drivers; systemd's has underscores in the UID, and a static pod's UID has no separators."""

_CONTAINERS = (
    (re.compile(r"(docker|crio|nerdctl)-([0-9a-f]{64})\.scope"), None),
    (re.compile(r"(cri-containerd)-([0-9a-f]{64})\.scope"), "containerd"),
    (re.compile(r"(libpod)(?:-payload)?-([0-9a-f]{64})(?:\.scope)?"), "podman"),
    (re.compile(r"(crio)-([0-9a-f]{64})"), None),
    (re.compile(r"(lxc\.payload)\.([\w.-]{1,64})", re.ASCII), "lxc"),
)
"""The names that runtimes give their groups, and the runtime, None where the name has it."""

_BARE_ID = re.compile(r"[0-9a-f]{64}")
_RUNTIMES_BY_FOLDER = {"docker": "docker", "default": "containerd", "cri-containerd": "containerd"}
"""The runtime of a group whose name is a bare ID, by the folder around it."""

_USER_MANAGER = re.compile(r"user@\d+\.service")
_UNIT = re.compile(r"[\w:.\\@-]{1,249}\.(?:service|scope)", re.ASCII)
_NO_UNIT = re.compile(
    r"user@\d+\.service|session-\w+\.scope|init\.scope|.*-spawn-.*\.scope|(?:.*_)?slurm(?:d\.service|stepd\.scope)|"
    r"(?:docker|containerd|crio|kubelet|podman)\.service|machine-.*\.scope"
)
"""Units that say nothing about whose a process is: sessions, terminals, and what starts containers and jobs."""


def owner_in(text: str) -> Owner:
    """The owner in the content of /proc/PID/cgroup; for each field, the first line that has it counts."""
    lines = text.split("\n", LINES_AT_MOST)[:LINES_AT_MOST]
    paths = dict.fromkeys(line.split(":", 2)[-1].removesuffix(" (deleted)") for line in lines)
    owner = Owner()
    for path in paths:
        if len(path) > 1:
            owner = owner.completed(_owner_of(path))
    return owner


def _owner_of(path: str) -> Owner:
    parts = re.split("[/:]", path, maxsplit=_PARTS_AT_MOST)[:_PARTS_AT_MOST]
    manager = next((place for place, part in enumerate(parts) if _USER_MANAGER.fullmatch(part)), len(parts))
    of_system = parts[:manager]
    job, step = _job(of_system)
    container, runtime = _container(parts)
    units = [part for part in parts if _UNIT.fullmatch(part) and not _NO_UNIT.fullmatch(part) and not _is_scope(part)]
    return Owner(
        job=job,
        step=step,
        pod=_pod(of_system),
        container=container,
        runtime=runtime,
        unit=units[-1] if units else None,
    )


def _job(parts: list[str]) -> tuple[str | None, str | None]:
    """Slurm's job and step."""
    slurm = next((place for place, part in enumerate(parts) if _SLURM.fullmatch(part)), len(parts))
    job = next(_matches(_JOB, parts[slurm:]), None)
    return job, next(_matches(_STEP, parts[slurm:]), None) if job else None


def _pod(parts: list[str]) -> str | None:
    if not any("kubepods" in part for part in parts):
        return None
    uid = next(_matches(_POD, parts), None)
    return uid.replace("_", "-") if uid else None


def _matches(pattern: re.Pattern[str], parts: list[str]) -> Iterator[str]:
    return (match[1] for part in parts if (match := pattern.fullmatch(part)))


def _container(parts: list[str]) -> tuple[str | None, str | None]:
    """The innermost container, and what runs it."""
    for place in range(len(parts) - 1, -1, -1):
        part = parts[place]
        for pattern, runtime in _CONTAINERS:
            match = pattern.fullmatch(part)
            if match:
                return match[2], runtime or match[1].replace("crio", "CRI-O")
        if _BARE_ID.fullmatch(part):
            return part, _RUNTIMES_BY_FOLDER.get(parts[place - 1] if place else "")
    return None, None


def _is_scope(part: str) -> bool:
    return any(pattern.fullmatch(part) for pattern, _ in _CONTAINERS)
