"""Reads the owner of a process from all sources; what the kernel says counts before what the process itself says."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from gputui.model.machine.owner import Owner
from gputui.model.reading import Reading, value_of
from gputui.sources.owners.cgroup_paths import owner_in
from gputui.sources.owners.environments import owner_by, python_environment
from gputui.sources.owners.node_files import DeviceJob, jobs_of_devices, names_of_pods, owner_on
from gputui.sources.procfs import ProcFs


class Subject(NamedTuple):
    """A process whose owner is wanted; if `name` or `devices` change, the owner is read again.

    `devices` are all the names that the process's devices have in files on the node.
    """

    pid: int
    started: float
    name: str
    uid: Reading[int]
    devices: tuple[str, ...] = ()

    @property
    def identity(self) -> tuple[int, float]:
        """PID and start time, which stay the same while the process lives."""
        return self.pid, self.started


class NodeFiles(NamedTuple):
    """What files on the node tell, read once for many processes."""

    jobs: Mapping[str, DeviceJob]
    pods: Mapping[str, tuple[str, str]]


def read_node_files() -> NodeFiles:
    """The files as they are now."""
    return NodeFiles(jobs_of_devices(os.environ), names_of_pods())


class OwnerReader:
    """Reads owners. Use it in a thread of its own: the files of a process can keep a reader waiting for ever."""

    def __init__(self, proc: ProcFs, node_files: Callable[[], NodeFiles] = read_node_files) -> None:
        self._proc = proc
        self.node_files = node_files

    def read(self, subject: Subject, files: NodeFiles) -> Reading[Owner]:
        """The owner now; absent where the process has ended, or its control groups cannot be read."""
        pid = subject.pid
        try:
            of_kernel = owner_in(self._proc.control_groups(pid))
        except OSError as error:
            return self._proc.why_unreadable(pid, error)
        variables, unread = self._variables(pid)
        said = owner_by(variables)
        owner = of_kernel.completed(said)
        if not owner.job and not owner.pod:
            owner = owner.completed(owner_on(subject.devices, value_of(subject.uid), files.jobs))
        named = files.pods.get(of_kernel.pod or "")
        if named:
            owner = owner._replace(namespace=named[0], pod=named[1])
        elif of_kernel.pod and said.pod:  # the kernel knows its UID alone
            owner = owner._replace(namespace=said.namespace, pod=said.pod)
        return owner._replace(environment=python_environment(self._program(pid), variables), unread=unread)

    def _variables(self, pid: int) -> tuple[dict[str, str], str]:
        """The variables, and why they cannot be read, or "".

        A process that sets its title (as Ray's and vLLM's workers) overwrites its variables: its parent's count then.
        """
        try:
            variables = self._proc.variables(pid)
        except OSError as error:
            return {}, self._proc.why_unreadable(pid, error).reason
        return variables or self._variables_of_parent(pid), ""

    def _variables_of_parent(self, pid: int) -> dict[str, str]:
        stat = self._proc.stat(pid)
        with suppress(OSError):
            return self._proc.variables(stat.parent_pid) if stat and stat.parent_pid > 1 else {}
        return {}

    def _program(self, pid: int) -> str:
        try:
            return next(iter(self._proc.arguments(pid)), "")
        except OSError:
            return ""
