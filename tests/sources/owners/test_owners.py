"""Owners of real processes, by their environments and what lies on the node; and of processes that keep one waiting."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from threading import Event

import pytest

from gputui.model.machine.device import Device, DeviceLook, DeviceUse
from gputui.model.machine.owner import Owner
from gputui.model.reading import NOT_READ, Absent, value_of
from gputui.sources.owners import Owners, Subject
from gputui.sources.owners.environments import owner_by, python_environment
from gputui.sources.owners.node_files import DCGM_VARIABLE, DeviceJob, jobs_of_devices, names_of_pods
from gputui.sources.owners.reader import NodeFiles, OwnerReader
from gputui.sources.processes import ProcessSource
from gputui.sources.procfs import ProcFs
from tests.hanging import HANGS_S, NOT_WITHIN_S, wait_until
from tests.sources.children import IDLE, as_nobody, running
from tests.sources.false_proc import CONTROL, FalseProc

POD = "3c1f9a52-7d1e-4a0b-9d0e-5f3a2b1c0d9e"
IN_POD = f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice\n"
NOWHERE = NodeFiles({}, {})


def subject(pid: int, uid: int = 0, devices: tuple[str, ...] = ()) -> Subject:
    stat = ProcFs().stat(pid)
    return Subject(pid, stat.started, stat.name, uid, devices)


def owner_of(pid: int, files: NodeFiles = NOWHERE, **options) -> Owner:
    return OwnerReader(ProcFs()).read(subject(pid, **options), files)


KUBERNETES = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
ENVIRONMENTS: dict[str, tuple[dict[str, str], dict[str, str | None]]] = {
    "Slurm": (
        {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0"},
        {"job": "4711", "step": "0", "job_source": "environment"},
    ),
    "Slurm's batch step": ({"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "4294967291"}, {"job": "4711", "step": "batch"}),
    "a job that is no number": ({"SLURM_JOB_ID": "4711; rm -rf", "SLURM_STEP_ID": "0"}, {"job": None, "step": None}),
    "a pod by its manifest": (
        {**KUBERNETES, "POD_NAME": "train-0", "POD_NAMESPACE": "ml"},
        {"pod": "train-0", "namespace": "ml"},
    ),
    "a pod by its host name": ({**KUBERNETES, "HOSTNAME": "train-0"}, {"pod": "train-0", "namespace": None}),
    "a pod on the node's network": ({**KUBERNETES, "HOSTNAME": os.uname().nodename}, {"pod": None}),
    "no pod": ({"HOSTNAME": "train-0"}, {"pod": None}),
    "Apptainer": (
        {"APPTAINER_CONTAINER": "/images/torch.sif"},
        {"container": "torch.sif", "runtime": "apptainer"},
    ),
    "Singularity": ({"SINGULARITY_NAME": "torch.sif"}, {"container": "torch.sif", "runtime": "apptainer"}),
    "Ray": ({"RAY_JOB_ID": "01000000"}, {"ray_job": "01000000"}),
    "tmux": ({"TMUX": "/tmp/tmux-1000/default,812,3"}, {"session": "tmux $3"}),
    "another server of tmux": ({"TMUX": "/tmp/tmux-1000/work,812,0"}, {"session": "tmux -L work $0"}),
    "screen": ({"STY": "4242.train"}, {"session": "screen 4242.train"}),
    "an endless name": ({"RAY_JOB_ID": "x" * 5000}, {"ray_job": None}),
    "control characters": ({"RAY_JOB_ID": "\x1b[2J"}, {"ray_job": "\\x1b[2J"}),
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_owner_by_the_environment_of_a_process(name):
    variables, expected = ENVIRONMENTS[name]
    with running(IDLE, **variables) as child:
        owner = owner_of(child.pid)
    assert {field: getattr(owner, field) for field in expected} == expected


def test_a_process_that_has_written_over_its_environment_has_its_parent_s():
    code = "import subprocess, sys, time\n"
    code += "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], env={})\n"
    code += "print('ready', child.pid, flush=True); time.sleep(600)"
    with running(code, SLURM_JOB_ID="4711") as parent:
        child = int(parent.words[0])
        wait_until(lambda: not ProcFs().variables(child))  # before exec, it has the environment of its parent
        assert owner_of(child).job == "4711"


PYTHONS = {
    "conda": ("/opt/conda/envs/torch/bin/python", {}, "torch"),
    "conda's base": ("/opt/conda/bin/python", {"CONDA_PREFIX": "/opt/conda", "CONDA_DEFAULT_ENV": "base"}, "base"),
    "a venv of a project": ("/home/ana/llama/.venv/bin/python3.12", {}, "llama/.venv"),
    "a venv inside conda": ("/home/ana/v/bin/python", {"CONDA_PREFIX": "/opt/conda"}, "v"),
    "activated": ("python", {"VIRTUAL_ENV": "/home/ana/torch", "CONDA_PREFIX": "/opt/conda"}, "torch"),
    "conda, activated": ("python", {"CONDA_PREFIX": "/opt/conda/envs/jax", "CONDA_DEFAULT_ENV": "jax"}, "jax"),
    "the system's": ("/usr/bin/python3", {}, None),
    "no Python": ("/opt/ollama/bin/ollama", {}, None),
    "nothing": ("", {}, None),
}


@pytest.mark.parametrize("name", PYTHONS)
def test_the_environment_of_an_interpreter(name):
    program, variables, expected = PYTHONS[name]
    assert python_environment(program, variables) == expected


@pytest.mark.root
def test_of_another_user_what_the_kernel_shows_is_told_and_why_the_rest_is_not():
    with running(IDLE, SLURM_JOB_ID="4711") as child:
        owner = as_nobody(lambda: owner_of(child.pid))
    assert owner.job is None
    assert owner.unread == "owned by root: permission denied"


def test_the_kernel_counts_before_the_environment(tmp_path):
    proc = false_process(
        tmp_path, "0::/system.slice/slurmstepd.scope/job_7/step_1\n", SLURM_JOB_ID="6", SLURM_STEP_ID="5"
    )
    owner = OwnerReader(ProcFs(proc.root)).read(Subject(9, 1.0, "python", 0), NOWHERE)
    assert (owner.job, owner.step, owner.job_source) == ("7", "1", None)


@pytest.mark.parametrize(
    ("pods", "variables", "expected"),
    [
        ({POD: ("ml", "train-0")}, {}, ("ml", "train-0")),
        ({POD: ("ml", "train-0")}, {**KUBERNETES, "POD_NAME": "another"}, ("ml", "train-0")),
        ({}, {**KUBERNETES, "HOSTNAME": "train-0"}, (None, "train-0")),
        ({}, {}, (None, POD)),
    ],
)
def test_the_name_of_a_pod_is_the_kubelet_s_or_its_own_or_the_uid(tmp_path, pods, variables, expected):
    proc = false_process(tmp_path, IN_POD, **variables)
    owner = OwnerReader(ProcFs(proc.root)).read(Subject(9, 1.0, "python", 0), NodeFiles({}, pods))
    assert (owner.namespace, owner.pod) == expected


def false_process(tmp_path: Path, groups: str, **variables: str) -> FalseProc:
    proc = FalseProc(tmp_path / "proc")
    proc.add(9, environment=b"\0".join(f"{name}={value}".encode() for name, value in variables.items()))
    (proc.root / "9" / "cgroup").write_text(groups)
    return proc


def test_pods_have_the_names_of_their_folders_of_logs(tmp_path):
    for name in (f"ml_train-0_{POD}", "not-a-pod", "ml_../../x_" + POD):
        (tmp_path / name.replace("/", "\\")).mkdir()
    assert names_of_pods(str(tmp_path)) == {POD: ("ml", "train-0")}
    assert names_of_pods(str(tmp_path / "missing")) == {}


def test_devices_have_the_jobs_that_a_prolog_has_written(tmp_path):
    jobstats, dcgm = tmp_path / "gpustat", tmp_path / "dcgm"
    jobstats.mkdir()
    dcgm.mkdir()
    (jobstats / "0").write_text("4711 1000\n")
    (jobstats / "MIG-265a219d").write_text("4712 1001\n")
    (jobstats / "1").write_bytes(b"\xff" * 10)
    (jobstats / "2").write_text("x" * 100_000)
    os.mkfifo(jobstats / "3")
    (dcgm / "4").write_text("4713\n")
    (dcgm / "5.1").write_text("4713\n4714\n")  # shared
    jobs = jobs_of_devices({DCGM_VARIABLE: str(dcgm)}, str(jobstats))
    assert {name: (job.job, job.uid) for name, job in jobs.items()} == {
        "0": ("4711", 1000),
        "MIG-265a219d": ("4712", 1001),
        "4": ("4713", None),
    }


@pytest.mark.parametrize(
    ("uid", "devices", "job"),
    [
        (1000, ("GPU-a", "0"), "4711"),
        (1001, ("GPU-a", "0"), None),
        (1000, ("GPU-a", "0", "GPU-b", "1"), None),
        (1000, ("GPU-c", "2"), None),
    ],
    ids=["its user's", "another user's", "two jobs", "no job"],
)
def test_a_process_has_the_job_of_its_devices(uid, devices, job):
    files = NodeFiles({"0": DeviceJob("4711", 1000, "/run/gpustat"), "1": DeviceJob("4712", 1000, "/run/gpustat")}, {})
    with running(IDLE) as child:
        owner = owner_of(child.pid, files, uid=uid, devices=devices)
    assert (owner.job, owner.job_source) == (job, "/run/gpustat" if job else None)


def looked_at(source: ProcessSource, pid: int) -> Owner | Absent:
    devices = DeviceLook(devices=(Device(0, "GPU-0", "A", ""),), uses=(DeviceUse("GPU-0", pid, "C", 1),))
    (process,) = source.read(devices).processes
    return process.owner


def test_an_owner_comes_after_the_first_looks():
    source = ProcessSource(in_private_namespace=False)
    with running(IDLE, SLURM_JOB_ID="4711") as child:
        assert looked_at(source, child.pid) == NOT_READ
        source.watch_owners()
        wait_until(lambda: value_of(looked_at(source, child.pid)))
        assert looked_at(source, child.pid).job == "4711"


def test_a_program_that_looks_once_waits_for_the_owners():
    source = ProcessSource(in_private_namespace=False)
    source.watch_owners(NOT_WITHIN_S)
    with running(IDLE, SLURM_JOB_ID="4711") as child:
        assert looked_at(source, child.pid).job == "4711"


def test_a_process_that_keeps_its_reader_waiting_is_given_up_and_the_others_are_read(tmp_path):
    now = [0.0]
    proc = FalseProc(tmp_path / "proc")
    for pid in (8, 9):
        proc.add(pid)
        (proc.root / str(pid) / "cgroup").write_text("0::/system.slice/train.service\n")
    (proc.root / "8" / "environ").unlink()
    os.mkfifo(proc.root / "8" / "environ")
    owners = Owners(ProcFs(proc.root), node_files=lambda: NOWHERE, clock=lambda: now[0])
    both = [Subject(pid, 1.0, "python", 0) for pid in (8, 9)]

    def is_given_up() -> bool:
        now[0] += 1.0
        return owners.look(both)[8] == Absent("its files in /proc do not answer")

    wait_until(is_given_up)
    # From here the clock stands: however slow this machine is, the other process is not given up as well.
    wait_until(lambda: value_of(owners.look(both)[9]))
    assert owners.look(both)[9].unit == "train.service"
    (proc.root / "8" / "environ").write_bytes(b"")  # ends the thread that waits


def test_owners_are_read_without_the_files_of_the_node_while_these_do_not_answer(tmp_path):
    now, answer = [0.0], Event()

    def files() -> NodeFiles:
        answer.wait(HANGS_S)
        return NodeFiles({}, {POD: ("ml", "train-0")})

    owners = Owners(ProcFs(false_process(tmp_path, IN_POD).root), node_files=files, clock=lambda: now[0])

    def pod() -> str | None:
        now[0] += 1.0
        owner = value_of(owners.look([Subject(9, 1.0, "python", 0)])[9])
        return owner.pod if owner else None

    wait_until(lambda: pod() == POD)
    answer.set()
    wait_until(lambda: pod() == "train-0")


def test_owners_of_processes_that_are_gone_are_forgotten():
    owners = Owners(ProcFs(), NOT_WITHIN_S)
    with running(IDLE) as child:
        assert owners.look([subject(child.pid)]).keys() == {child.pid}
    assert owners.look([]) == {}


@pytest.mark.parametrize("seed", range(20))
def test_no_environment_is_an_error(tmp_path, seed):
    random = Random(seed)
    words = [
        b"SLURM_JOB_ID=",
        b"TMUX=",
        b"POD_NAME=",
        b"KUBERNETES_SERVICE_HOST=",
        b"\0",
        b"9" * 5000,
        CONTROL,
        b"=",
        b"/",
    ]
    proc = FalseProc(tmp_path / "proc")
    proc.add(9, environment=b"".join(random.choice(words) for _ in range(500)))
    (proc.root / "9" / "cgroup").write_bytes(b"".join(random.choice(words) for _ in range(500)))
    owner = OwnerReader(ProcFs(proc.root)).read(Subject(9, 1.0, "python", 0), NOWHERE)
    assert all(value.isprintable() and len(value) < 600 for value in owner if value)


def test_nothing_is_known_of_an_empty_environment():
    assert owner_by({}) == Owner()
