"""A real Slurm with one node and a job of two ranks: `apt-get install slurm-wlm`, or the like, and root."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputui.model.machine.owner import Owner
from gputui.sources.owners.reader import NodeFiles, OwnerReader, Subject
from gputui.sources.procfs import ProcFs
from tests.hanging import HANGS_S, wait_until

pytestmark = [
    pytest.mark.root,
    *(pytest.mark.needs(need) for need in ("slurmctld", "slurmd", "munged", "/sys/fs/cgroup/freezer")),
]

CONFIGURATION = """
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
MpiDefault=none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE:4 State=UP
"""
CGROUPS = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nCgroupMountpoint=/sys/fs/cgroup\nConstrainRAMSpace=no\n"

RANK = (
    "import os, time; open(os.environ['RANKS'] + os.environ['SLURM_PROCID'], 'w').write(str(os.getpid())); "
    "time.sleep(600)"
)


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment in which Slurm's commands find the cluster."""
    host = os.uname().nodename.partition(".")[0]
    cpus = len(os.sched_getaffinity(0))
    text = CONFIGURATION.format(host=host, ports=free_ports(2), folder=tmp_path, cpus=cpus)
    (tmp_path / "slurm.conf").write_text(text)
    (tmp_path / "cgroup.conf").write_text(CGROUPS)
    (tmp_path / "state").mkdir()
    (tmp_path / "spool").mkdir()
    (tmp_path / "munge.key").write_bytes(os.urandom(1024))
    (tmp_path / "munge.key").chmod(0o600)
    munged = ["munged", "--foreground", "--force", f"--key-file={tmp_path}/munge.key"]
    munged += [f"--socket={tmp_path}/munge.socket", f"--pid-file={tmp_path}/munged.pid"]
    munged += [f"--log-file={tmp_path}/munged.log", f"--seed-file={tmp_path}/munge.seed"]
    environment = {**os.environ, "SLURM_CONF": f"{tmp_path}/slurm.conf"}
    daemons = [subprocess.Popen(munged, env=environment)]
    try:
        wait_until((tmp_path / "munge.socket").exists)
        daemons += [subprocess.Popen([name, "-D"], env=environment) for name in ("slurmctld", "slurmd")]
        wait_until(lambda: "idle" in command(environment, "sinfo", "--noheader", "--format=%t"))
        yield environment
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(HANGS_S)


def command(environment: dict[str, str], *words: str) -> str:
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=HANGS_S, check=False)
    return done.stdout.strip()


def test_both_ranks_of_a_job_are_in_it_by_the_word_of_the_kernel(slurm: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "job"
    script.write_text(f"#!/bin/sh\nexec {shlex.join(['srun', '--overlap', '-n', '2', sys.executable, '-c', RANK])}\n")
    slurm = {**slurm, "RANKS": f"{tmp_path}/rank-"}
    job = command(slurm, "sbatch", "--parsable", "-n", "2", "-O", "-o", "/dev/null", str(script))
    try:
        ranks = [tmp_path / f"rank-{number}" for number in range(2)]
        wait_until(lambda: all(rank.exists() and rank.read_text() for rank in ranks))
        reader = OwnerReader(ProcFs())
        owners = []
        for rank in ranks:
            stat = ProcFs().stat(int(rank.read_text()))
            owners.append(reader.read(Subject(stat.pid, stat.started, stat.name, 0), NodeFiles({}, {})))
    finally:
        command(slurm, "scancel", job)
        wait_until(lambda: not command(slurm, "squeue", "--noheader"))
    assert [(owner.job, owner.step, owner.job_source) for owner in owners] == [(job, "0", None)] * 2
    assert owners[0].group == Owner(job=job).group
