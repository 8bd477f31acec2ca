"""What a process's environment says about its owner, which the process can choose: job, pod, container, conda, tmux."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from gputui.model.machine.owner import Owner
from gputui.model.printable import printable

_LONGEST = 128
"""The longest name that is shown. Kubernetes' have at most 63 characters; an environment may contain anything."""

Variables = Mapping[str, str]

_STEPS = {"4294967290": "interactive", "4294967291": "batch", "4294967292": "extern"}
"""Steps that have a number in Slurm's variable (slurm.h), and a name in its control groups."""

_SYSTEM_PREFIXES = frozenset({"", "/", "/usr", "/usr/local"})
_PLAIN_NAMES = frozenset({".venv", "venv", ".env", "env"})
"""Common names of environments: the folder around one tells it from others."""


def _named(name: str | None) -> str | None:
    """A name as it can be shown, None where it is missing or too long."""
    if not name or len(name) > _LONGEST:
        return None
    return printable(os.fsencode(name).decode(errors="replace"))


def _first(*names: str) -> Callable[[Variables], str | None]:
    return lambda variables: next((text for name in names if (text := variables.get(name))), None)


def _slurm_number(*names: str) -> Callable[[Variables], str | None]:
    def number(variables: Variables) -> str | None:
        text = _first(*names)(variables) or ""
        return text if text.isascii() and text.isdigit() and len(text) <= 10 else None

    return number


def _step(variables: Variables) -> str | None:
    number = _slurm_number("SLURM_STEP_ID", "SLURM_STEPID")(variables)
    return _STEPS.get(number, number) if number else None


def _pod(variables: Variables) -> str | None:
    """The pod's name: from the manifest's variables, or the host name in the pod, unless that is the node's own."""
    if "KUBERNETES_SERVICE_HOST" not in variables:
        return None
    name = _first("POD_NAME", "MY_POD_NAME", "HOSTNAME")(variables)
    return None if name == os.uname().nodename else name


def _namespace(variables: Variables) -> str | None:
    in_cluster = "KUBERNETES_SERVICE_HOST" in variables
    return _first("POD_NAMESPACE", "MY_POD_NAMESPACE")(variables) if in_cluster else None


def _apptainer(variables: Variables) -> str | None:
    """The file name of an Apptainer container's image, or the container's name where the image is not given."""
    image = _first("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "APPTAINER_NAME", "SINGULARITY_NAME")(variables)
    return os.path.basename(image) if image else None


def _session(variables: Variables) -> str | None:
    """The terminal's session, in the words by which tmux, screen and zellij attach to it."""
    tmux = re.fullmatch(r"(.*),\d+,(\d+)", variables.get("TMUX", ""), re.ASCII)
    if tmux:
        server = os.path.basename(tmux[1])
        return f"tmux ${tmux[2]}" if server == "default" else f"tmux -L {server} ${tmux[2]}"
    for program, name in (("screen", "STY"), ("zellij", "ZELLIJ_SESSION_NAME")):
        if variables.get(name):
            return f"{program} {variables[name]}"
    return None


_FIELDS: dict[str, Callable[[Variables], str | None]] = {
    "job": _slurm_number("SLURM_JOB_ID", "SLURM_JOBID"),
    "step": _step,
    "pod": _pod,
    "namespace": _namespace,
    "container": _apptainer,
    "ray_job": _first("RAY_JOB_ID"),
    "session": _session,
}


def owner_by(variables: Variables) -> Owner:
    """The owner that these variables tell."""
    fields: dict[str, Any] = {field: _named(find(variables)) for field, find in _FIELDS.items()}
    owner = Owner(**fields)
    return owner._replace(
        step=owner.step if owner.job else None,
        runtime="apptainer" if owner.container else None,
        job_source="environment" if owner.job else None,
    )


def python_environment(program: str, variables: Variables) -> str | None:
    """The name of the conda environment or venv, by the interpreter's path, or else by the variables.

    Another user's variables cannot be read, but the interpreter's path is in the command line.
    """
    folder, name = os.path.split(program)
    prefix = os.path.dirname(folder)
    if not (program.startswith("/") and name.startswith("python") and os.path.basename(folder) == "bin"):
        prefix = variables.get("VIRTUAL_ENV") or variables.get("CONDA_PREFIX") or ""
    if prefix.rstrip("/") in _SYSTEM_PREFIXES:
        return None
    if prefix == variables.get("CONDA_PREFIX") and variables.get("CONDA_DEFAULT_ENV"):
        return _named(os.path.basename(variables["CONDA_DEFAULT_ENV"]))
    project, name = os.path.split(prefix.rstrip("/"))
    return _named(f"{os.path.basename(project)}/{name}" if name in _PLAIN_NAMES else name)
