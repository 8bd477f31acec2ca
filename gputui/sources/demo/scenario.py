"""The demonstration's jobs on eight devices, and the processes that started them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gputui.model.machine.process import Rank
from gputui.sources.demo.curves import Curve, around, bursts, constant, noise, staircase, training
from gputui.sources.procfs import PID_MAX

FIRST_PID = PID_MAX + 1
"""Higher than the PID of any real process."""

SYSTEMD, SLURMSTEPD, SCRIPT, TORCHRUN, SHELL, DOCKER, JUPYTER = range(FIRST_PID, FIRST_PID + 7)
RANKS = range(FIRST_PID + 20, FIRST_PID + 60, 10)
FINETUNE, SERVER, KERNEL, PPO, NOTEBOOK = range(FIRST_PID + 100, FIRST_PID + 600, 100)
EXAMPLES = range(FIRST_PID + 700, FIRST_PID + 800)
"""The PIDs of recorded programs, of which one runs at a time if the user has chosen it."""
EVALUATION = FIRST_PID + 1000
"""The PID of the evaluation's first run; every run is a process of its own."""

PIPE = "data from pipe:[88213] (read)"
EVENTS = "an event on its files or sockets (epoll_wait)"
NOTHING = "nothing: it runs"


@dataclass(frozen=True, slots=True)
class Job:
    """A process on one device; `load` is its share of the device's time, from 0 to 1."""

    pid: int
    parent_pid: int
    user: str
    command: str
    device: str
    memory_gib: Curve
    load: Curve
    age_s: float
    cpu_percent: Curve
    rss_gib: float
    threads: int
    waiting_for: str
    workers: int = 0
    worker_gib: float = 1.4
    rank: Rank | None = None
    has_probe: bool = False
    is_zombie: bool = False


@dataclass(frozen=True, slots=True)
class Relative:
    """A process without a device that is an ancestor of a job."""

    parent_pid: int
    user: str
    command: str
    rss_gib: float
    threads: int


RELATIVES = {
    SYSTEMD: Relative(0, "root", "/usr/lib/systemd/systemd --system", 0.012, 1),
    SLURMSTEPD: Relative(SYSTEMD, "root", "slurmstepd: [48213.batch]", 0.011, 4),
    SCRIPT: Relative(SLURMSTEPD, "ana", "/bin/bash /var/spool/slurmd/job48213/slurm_script", 0.004, 1),
    TORCHRUN: Relative(SCRIPT, "ana", "python torchrun --standalone --nproc-per-node=4 train.py", 0.31, 9),
    SHELL: Relative(SYSTEMD, "ben", "-bash", 0.005, 1),
    DOCKER: Relative(SYSTEMD, "root", "/usr/bin/containerd-shim-runc-v2 -namespace moby", 0.013, 12),
    JUPYTER: Relative(SYSTEMD, "carla", "python -m jupyterhub.singleuser --port=40219", 0.14, 6),
}

_EVALUATION_EVERY_S, _EVALUATION_FROM_S, _EVALUATION_TO_S, _EVALUATION_GONE_S = 150.0, 15.0, 96.0, 102.0

HIDDEN_GIB = {"GPU-4": 0.62, "GPU-7": 0.17}
"""GiB that no listed process holds: a process in a container has them, or MIG itself."""


def jobs(time_s: float) -> list[Job]:
    """The jobs that run at `time_s`."""
    return [*_ranks(), *_others(), *_evaluation(time_s)]


def example(number: int, command: str, memory_gib: float) -> Job:
    """A recorded program; `memory_gib` is what it holds at the place where its recording is opened."""
    return Job(
        pid=EXAMPLES[number],
        parent_pid=SHELL,
        user="ana",
        command=command,
        device="GPU-6",
        memory_gib=constant(memory_gib),
        load=constant(0.4),
        age_s=96.0,
        cpu_percent=constant(99.0),
        rss_gib=2.4,
        threads=48,
        waiting_for=NOTHING,
        has_probe=True,
    )


def _ranks() -> Iterator[Job]:
    for rank, pid in enumerate(RANKS):
        wander = noise(f"rank {rank}")
        yield Job(
            pid=pid,
            parent_pid=TORCHRUN,
            user="ana",
            command="python -u train.py --config configs/gpt-1.3b.yaml --fsdp --compile",
            device=f"GPU-{rank}",
            memory_gib=around(67.0 if rank == 0 else 65.4, 0.25, wander),
            load=training(0.97, wander),
            age_s=5 * 3600 + 1240,
            cpu_percent=around(101, 4, wander),
            rss_gib=9.6,
            threads=214,
            waiting_for=NOTHING,
            workers=4,
            rank=Rank(rank=rank, world_size=4, local_rank=rank, launcher_pid=TORCHRUN),
            has_probe=True,
        )


def _others() -> Iterator[Job]:
    wander = noise("others")
    yield Job(
        pid=FINETUNE,
        parent_pid=SHELL,
        user="ben",
        command="python finetune_lora.py --model mistral-7b --dataset tickets.jsonl --grad-accum 8",
        device="GPU-4",
        memory_gib=staircase(17.5, 71.0, step_s=20, steps=24),
        load=training(0.84, wander, pause_every_s=20, pause_s=3),
        age_s=47 * 60,
        cpu_percent=around(97, 5, wander),
        rss_gib=14.2,
        threads=96,
        waiting_for=PIPE,
        workers=2,
        worker_gib=0.8,
        has_probe=True,
    )
    yield Job(
        pid=SERVER,
        parent_pid=DOCKER,
        user="llm",
        command="python3 -m vllm.entrypoints.openai.api_server --model llama-3.1-8b-instruct --port 8000",
        device="GPU-5",
        memory_gib=constant(71.7),
        load=bursts(0.72, noise("requests")),
        age_s=12 * 86400 + 3 * 3600,
        cpu_percent=around(34, 25, noise("requests")),
        rss_gib=6.3,
        threads=178,
        waiting_for=EVENTS,
        has_probe=True,
    )
    yield Job(
        pid=KERNEL,
        parent_pid=JUPYTER,
        user="carla",
        command="python -m ipykernel_launcher -f /home/carla/.local/share/jupyter/runtime/kernel-8c1f.json",
        device="GPU-6",
        memory_gib=constant(3.1),
        load=constant(0.0),
        age_s=2 * 86400 + 5 * 3600,
        cpu_percent=constant(0.3),
        rss_gib=2.2,
        threads=41,
        waiting_for=EVENTS,
    )
    yield Job(
        pid=PPO,
        parent_pid=SYSTEMD,
        user="dmitri",
        command="python ppo.py --env halfcheetah --num-envs 64",
        device="MIG-7-1",
        memory_gib=around(8.4, 0.1, wander),
        load=training(0.42, wander),
        age_s=3 * 3600 + 312,
        cpu_percent=around(780, 60, wander),
        rss_gib=5.1,
        threads=83,
        waiting_for=NOTHING,
    )
    yield Job(
        pid=NOTEBOOK,
        parent_pid=JUPYTER,
        user="carla",
        command="python -m ipykernel_launcher -f /home/carla/.local/share/jupyter/runtime/kernel-1d77.json",
        device="MIG-7-5",
        memory_gib=constant(1.7),
        load=constant(0.0),
        age_s=1800,
        cpu_percent=constant(0.2),
        rss_gib=1.1,
        threads=38,
        waiting_for=EVENTS,
    )


def _evaluation(time_s: float) -> Iterator[Job]:
    run, second = divmod(time_s, _EVALUATION_EVERY_S)
    if not _EVALUATION_FROM_S <= second < _EVALUATION_GONE_S:
        return
    wander = noise("evaluation")
    is_over = second >= _EVALUATION_TO_S
    loaded = min(1.0, (second - _EVALUATION_FROM_S) / 12)
    yield Job(
        pid=EVALUATION + int(run),
        parent_pid=SHELL,
        user="ana",
        command="python eval.py --checkpoint runs/gpt-1.3b/step_12000.pt --tasks hellaswag,arc",
        device="GPU-6",
        memory_gib=constant(0.5 + 22.0 * loaded),
        load=constant(0.0) if is_over or loaded < 1 else around(0.58, 0.2, wander),
        age_s=-(run * _EVALUATION_EVERY_S + _EVALUATION_FROM_S),
        cpu_percent=constant(0.0) if is_over else around(99, 2, wander),
        rss_gib=0.0 if is_over else 4.0 * loaded,
        threads=1 if is_over else 57,
        waiting_for=f"its parent, PID {SHELL}, to collect it: it has ended" if is_over else NOTHING,
        is_zombie=is_over,
    )
