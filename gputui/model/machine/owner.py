"""Whose a process is: the job, pod, container, unit or environment that it runs in."""

from __future__ import annotations

from typing import NamedTuple

SHORT_ID = 12
"""How many digits of a container's ID docker and podman show."""


class Owner(NamedTuple):
    """What a process runs in; a field is None where it is not known, or does not exist.

    `job` and `step` are Slurm's. `pod` is the pod's UID where its name is not known. `container` is an ID of 64 digits,
    or a name, of the container that `runtime` runs. `unit` is a systemd unit other than a login session's.
    `environment` is a conda environment or a venv, `session` a session of tmux, screen or zellij.

    `job_source` is where the job comes from unless the kernel's control groups tell it: "environment", which the
    process may have inherited from a job that has ended, or a folder that a prolog writes. `unread` is why the
    process's environment could not be read, "" where it could.
    """

    job: str | None = None
    step: str | None = None
    namespace: str | None = None
    pod: str | None = None
    container: str | None = None
    runtime: str | None = None
    unit: str | None = None
    ray_job: str | None = None
    environment: str | None = None
    session: str | None = None
    job_source: str | None = None
    unread: str = ""

    @property
    def is_known(self) -> bool:
        """Whether any field but `job_source` and `unread` is set."""
        return any(self[: len(Owner._fields) - 2])

    def completed(self, other: Owner) -> Owner:
        """This owner, with fields that only `other` has; fields that belong together come from the same source."""
        if self.job:
            other = other._replace(step=other.step if other.job == self.job else None, job_source=None)
        if self.pod:
            other = other._replace(namespace=None)
        if self.container:
            other = other._replace(runtime=None)
        new = {name: value for name, value in other._asdict().items() if value and not getattr(self, name)}
        return self._replace(**new)

    @property
    def group(self) -> tuple[str, str] | None:
        """Kind and name of the first of these that is known: Slurm job, pod, Ray job, container, unit; None if none is.

        An environment or a terminal's session is not a group: people run unrelated programs in one.
        """
        pod = f"{self.namespace}/{self.pod}" if self.namespace else self.pod
        kinds = (
            ("Slurm job", self.job),
            ("pod", pod),
            ("Ray job", self.ray_job),
            (f"{self.runtime} container" if self.runtime else "container", self.container and short(self.container)),
            ("unit", self.unit),
        )
        return next(((kind, name) for kind, name in kinds if name), None)

    @property
    def name(self) -> str:
        """The name of the group, "" without one; a job with its step: "4711.0", "ml/train-0", "train.service"."""
        if self.group is None:
            return ""
        return f"{self.job}.{self.step}" if self.job and self.step else self.group[1]


def short(container: str) -> str:
    """The first digits of a container's ID, as docker shows it; a container's name as it is."""
    return container[:SHORT_ID] if len(container) == 64 else container
