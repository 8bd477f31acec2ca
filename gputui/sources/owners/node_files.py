"""Reads files that other programs leave on a node for all to read: which job has a device, and the names of pods.

A Slurm prolog of the site writes the job of each device to a file, in one of two forms: jobstats has "JOB UID" in
/run/gpustat, the folder of dcgm-exporter's --hpc-job-mapping-dir has job IDs in lines. The kubelet makes a folder
NAMESPACE_POD_UID for each pod's logs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gputui.model.machine.owner import Owner
from gputui.regular_files import small_content

DCGM_VARIABLE = "DCGM_HPC_JOB_MAPPING_DIR"
"""The variable by which dcgm-exporter itself finds its folder, which has no usual place."""
JOBSTATS = "/run/gpustat"
POD_LOGS = "/var/log/pods"

_FILES_AT_MOST = 256
_PODS_AT_MOST = 10_000
_MOST_BYTES = 4096

_POD_FOLDER = re.compile(r"([a-z0-9-]{1,63})_([a-z0-9.-]{1,253})_([0-9a-f-]{32,36})")


class DeviceJob(NamedTuple):
    """The job to which a device was given; `uid` is the job's user, None where the file does not tell."""

    job: str
    uid: int | None
    source: str


def jobs_of_devices(environment: Mapping[str, str], jobstats: str = JOBSTATS) -> dict[str, DeviceJob]:
    """The job of each device that has exactly one, by the name of the device's file.

    The name is NVML's index or the UUID; for a MIG instance the UUID or "GPU.INSTANCE".
    """
    jobs: dict[str, DeviceJob] = {}
    folder = environment.get(DCGM_VARIABLE, "")
    for name, text in _contents(folder) if folder else ():
        words = text.split()
        if len(words) == 1 and (job := _number(words[0])):
            jobs[name] = DeviceJob(job, None, folder)
    for name, text in _contents(jobstats):
        words = text.split()
        if len(words) == 2 and (job := _number(words[0])) and (uid := _number(words[1])):
            jobs[name] = DeviceJob(job, int(uid), jobstats)
    return jobs


def _contents(folder: str) -> Iterator[tuple[str, str]]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry, _ in zip(entries, range(_FILES_AT_MOST), strict=False)]
    except OSError:
        return
    for name in names:
        yield name, _text(os.path.join(folder, name))


def _text(path: str) -> str:
    try:
        return small_content(path, _MOST_BYTES).decode("ascii")
    except (OSError, UnicodeDecodeError):
        return ""


def _number(word: str) -> str | None:
    return word if re.fullmatch(r"\d{1,10}", word, re.ASCII) else None


def owner_on(devices: tuple[str, ...], uid: int | None, jobs: Mapping[str, DeviceJob]) -> Owner:
    """The job of a process on these devices: that of all devices that have one, if it is the process's user's."""
    found = {jobs[name] for name in devices if name in jobs}
    if len(found) != 1:
        return Owner()
    (job,) = found
    return Owner() if job.uid not in (None, uid) else Owner(job=job.job, job_source=job.source)


def names_of_pods(folder: str = POD_LOGS) -> dict[str, tuple[str, str]]:
    """Namespace and name of this node's pods by UID; {} where this user may not list them."""
    try:
        with os.scandir(folder) as entries:
            matches = [
                _POD_FOLDER.fullmatch(entry.name) for entry, _ in zip(entries, range(_PODS_AT_MOST), strict=False)
            ]
    except OSError:
        return {}
    return {match[3]: (match[1], match[2]) for match in matches if match}
