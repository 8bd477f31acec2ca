"""Whether a GPU waits for its input, and for what: a scene for each cause, and real DataLoaders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL
from tempfile import TemporaryFile

import pytest

from gputui.model.machine.device import DeviceUse
from gputui.model.machine.host import Host, Space
from gputui.model.machine.process import Identity, Process, ProcessState, Workers
from gputui.model.machine.snapshot import Snapshot
from gputui.sources.processes import ProcessSource
from gputui.units import GIB, MIB
from tests.explain.machine.scenes import Machine
from tests.forkserver import Forked
from tests.hanging import HANGS_S
from tests.sources.children import look_at
from tests.torches import FORKED_AFTER, REPOSITORY
from tests.ui import scenes

PROGRAM = Path(__file__).parent / "programs" / "loading.py"
FREE = scenes.HOST._replace(core_percents=(20.0,) * 16, cpu_percent=20.0)
FULL_CORES = scenes.HOST._replace(core_percents=(99.0,) * 4, cpu_percent=98.0)


def scene(process: Process, host: Host = FREE, **device: object) -> Snapshot:
    readings = {"gpu_utilization_percent": 40, "pcie_rx_bytes_per_s": 100 * MIB, **device}
    return scenes.snapshot((scenes.device(**readings),), (process,), host=host)


def program(running: int, count: int = 4, on_disk: int = 0, state: ProcessState = ProcessState.SLEEPING) -> Process:
    workers = Workers(count, 100.0 * running, GIB, is_proportional=True, running=running, on_disk=on_disk)
    return scenes.process(state=state, workers=workers if count else None)


CASES = {
    "too few workers": (scene(program(4)), "its loader has too few workers", "Raise num_workers from 4 to 8"),
    "no core is free": (scene(program(4), FULL_CORES), "decoding and transforms take all cores", "decode there (DALI"),
    "the disk": (scene(program(0, on_disk=3)), "wait for the disk", "local disk"),
    "shared memory": (
        scene(program(1), FREE._replace(shm=Space(100 * MIB, 94 * MIB))),
        "/dev/shm is full",
        "--shm-size=16g",
    ),
    "copies": (
        scene(program(1), **{**scenes.PROFILE, "sm_active_percent": 20.0, "pcie_rx_bytes_per_s": 8 * GIB}),
        "copies to the GPU take its time",
        "pin_memory=True",
    ),
    "one process": (
        scene(program(0, count=0, state=ProcessState.RUNNING)),
        "prepares everything in one process",
        "num_workers=4",
    ),
    "the main thread": (
        scene(program(0, state=ProcessState.RUNNING)),
        "its program's main thread, not for its workers",
        "collate_fn",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_gpu_that_is_used_little_has_a_cause_and_a_remedy(name: str) -> None:
    snapshot, words, remedy = CASES[name]
    machine = Machine()
    findings = machine.pass_time(70, snapshot)
    (finding,) = [finding for finding in findings if finding.kind == "input"]
    assert words in finding.title
    assert remedy in finding.remedy
    assert finding.evidence[0] == "The GPU is used 40% in the mean of a minute, between 40% and 40%."
    assert finding.process == Identity(1000, scenes.NOW - 3600.0)


@pytest.mark.parametrize(
    "healthy",
    [
        scene(program(4), gpu_utilization_percent=95),
        scene(program(4), gpu_utilization_percent=3),
        scene(program(1)),
        scene(program(0, state=ProcessState.RUNNING), gpu_utilization_percent=60),
        scene(program(4)._replace(identity=Identity(1000, scenes.NOW - 30.0))),
    ],
    ids=["a busy gpu", "an idle gpu", "workers that rest", "it may wait for the gpu", "it has just begun"],
)
def test_nothing_is_said_of(healthy: Snapshot) -> None:
    assert "input" not in [finding.kind for finding in Machine().pass_time(90, healthy)]


@pytest.mark.parametrize("busy", [program(4), program(0, on_disk=3)], ids=["too few workers", "the disk"])
def test_nothing_is_said_of_workers_that_have_ended(busy: Process) -> None:
    machine = Machine()
    machine.pass_time(70, scene(busy))
    assert machine.kinds == ["input"]
    machine.pass_time(4, scene(program(0, count=0)))
    assert machine.kinds == []


LOOKS, LOOKS_ON_A_BUSY_MACHINE = 40, 2000


@contextmanager
def loading(python: str, manner: str) -> Iterator[int]:
    """A real program that loads in this manner; its PID."""
    environment = {**os.environ, "GPUTUI_PROBE": "0", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(REPOSITORY)}
    with TemporaryFile() as errors:
        words = [str(PROGRAM), manner]
        child = Forked(python, words, FORKED_AFTER, env=environment, cwd=REPOSITORY, stderr=errors)
        try:
            assert child.stdout.readline() == b"ready\n"
            yield child.pid
        finally:
            os.killpg(child.pid, SIGKILL)
            child.wait(HANGS_S)


@pytest.mark.parametrize(
    ("manner", "words"),
    [
        ("workers", "its loader has too few workers"),
        ("alone", "prepares everything in one process"),
        ("main thread", "its program's main thread, not for its workers"),
        ("well", ""),
    ],
)
def test_a_real_data_loader_is_judged_by_what_its_processes_do(torch_path: str, manner: str, words: str) -> None:
    """On a busy machine it takes longer until the program's processes have had their turns."""
    machine, source, looks, titles = Machine(), ProcessSource(in_private_namespace=False), 0, list[str]()
    with loading(torch_path, manner) as pid:
        while looks < LOOKS or (words and not titles and looks < LOOKS_ON_A_BUSY_MACHINE):
            (process,) = look_at(source, pid)
            use = DeviceUse("GPU-00000000", pid, "C", 20 * GIB)
            old = process._replace(identity=Identity(pid, scenes.NOW - 3600), uses=(use,))
            machine.pass_time(2, scene(old))
            looks += 1
            titles = [finding.title for finding in machine.watch.findings if finding.kind == "input"]
    assert len(titles) == bool(words)
    assert words in "".join(titles)
