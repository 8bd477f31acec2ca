"""What a command line runs, as people name it."""

from __future__ import annotations

import pytest

from gputui.model.machine.programs import program_of

CONDA = "/opt/conda/envs/torch/bin"

CASES = {
    "a script": ("/usr/bin/python3 /home/ana/gpt/train.py --config gpt.yaml", "train.py --config gpt.yaml"),
    "a script of a conda environment": (f"{CONDA}/python /home/ana/train.py --lr 1", "train.py --lr 1"),
    "options of the interpreter": ("python3.12 -u -X dev -Wignore -OO train.py -u", "train.py -u"),
    "a module": ("python -u -m package.train --lr 1", "package.train --lr 1"),
    "a module with joined options": ("python -um package.train", "package.train"),
    "a console script": (
        f"{CONDA}/python {CONDA}/vllm serve meta/llama --port 8000",
        "vllm serve meta/llama --port 8000",
    ),
    "code": ("/usr/bin/python3.11 -c import torch; torch.ones(1)", "python3.11 -c import torch; torch.ones(1)"),
    "an interpreter alone": ("/usr/bin/python3", "python3"),
    "an interactive interpreter": ("/usr/bin/python3 -i", "python3 -i"),
    "standard input": ("/usr/bin/python3 - --lr 1", "python3 - --lr 1"),
    "a free-threaded interpreter": ("/usr/bin/python3.14t train.py", "train.py"),
    "a kernel": ("python -m ipykernel_launcher -f kernel-8c1f.json", "ipykernel_launcher -f kernel-8c1f.json"),
    "torchrun": ("torchrun --nproc-per-node 8 /home/ana/train.py --lr 1", "train.py --lr 1 (torchrun)"),
    "torchrun by its interpreter": (
        f"{CONDA}/python {CONDA}/torchrun --standalone --nproc_per_node=8 train.py --lr 1",
        "train.py --lr 1 (torchrun)",
    ),
    "torchrun with a module": (
        "torchrun --nproc-per-node 8 -m package.train --lr 1",
        "package.train --lr 1 (torchrun)",
    ),
    "torch.distributed.run": ("python -m torch.distributed.run --nnodes 2 train.py", "train.py (torchrun)"),
    "torchrun without Python": ("torchrun --no-python --nnodes 2 bash run.sh", "run.sh (torchrun)"),
    "torchrun without a script": ("torchrun --help", "torchrun --help"),
    "accelerate launch": (
        f"{CONDA}/python {CONDA}/accelerate launch --multi_gpu --mixed_precision bf16 train.py --lr 1",
        "train.py --lr 1 (accelerate launch)",
    ),
    "accelerate without launch": (f"{CONDA}/python {CONDA}/accelerate env", "accelerate env"),
    "an unknown flag before a script": ("torchrun --new-flag train.py --lr 1", "train.py --lr 1 (torchrun)"),
    "deepspeed": (
        "python -u -m deepspeed.launcher.launch --world_info=eyJ --no_local_rank train.py --deepspeed ds.json",
        "train.py --deepspeed ds.json (deepspeed)",
    ),
    "uv run": ("uv run train.py --lr 1", "train.py --lr 1 (uv run)"),
    "uv run with Python": ("/home/ana/.local/bin/uv run --with rich python train.py", "train.py (uv run)"),
    "uv run of torchrun": ("uv run torchrun --nnodes 2 train.py", "train.py (torchrun) (uv run)"),
    "uv pip": ("uv pip install torch", "uv pip install torch"),
    "conda run": (
        f"{CONDA}/python {CONDA}/conda run -n torch --no-capture-output python train.py",
        "train.py (conda run)",
    ),
    "a shell's command": ("bash -c python train.py --lr 1", "train.py --lr 1 (bash -c)"),
    "a login shell's command": ("/bin/bash -lc python train.py", "train.py (bash -c)"),
    "a shell's commands": ("/bin/sh -c cd /data && python train.py", "cd /data && python train.py (sh -c)"),
    "a shell script": ("/bin/bash -e /var/spool/slurmd/job48213/slurm_script a", "slurm_script a"),
    "a login shell": ("-bash", "-bash"),
    "a shell": ("/bin/bash", "bash"),
    "a title": ("VLLM::EngineCore", "VLLM::EngineCore"),
    "a title with words": ("sshd: ana@pts/0", "sshd: ana@pts/0"),
    "a title like a command": ("python train.py epoch 3", "train.py epoch 3"),
    "a title of ray": ("ray::RolloutWorker.sample()", "ray::RolloutWorker.sample()"),
    "a kernel thread": ("[kworker/0:1]", "[kworker/0:1]"),
    "another program": ("/usr/lib/xorg/Xorg :0 -auth /run/x", "Xorg :0 -auth /run/x"),
    "a path that ends in a slash": ("/opt/x/", "x"),
    "nothing": ("", ""),
    "a launcher within launchers without end": (
        "uv run uv run uv run uv run uv run uv run train.py",
        "uv run train.py (uv run) (uv run) (uv run) (uv run) (uv run)",
    ),
    "modules within modules without end": (
        "torchrun" + " -m torchrun" * 3000 + " -m train",
        "torchrun" + " -m torchrun" * 2995 + " -m train" + " (torchrun)" * 5,
    ),
    "a secret": ("/usr/bin/python train.py --api-key=abc --lr 1", "train.py --api-key=•••••• --lr 1"),
}


@pytest.mark.parametrize(("command", "program"), CASES.values(), ids=CASES.keys())
def test_a_command_line_is_named_by_what_it_runs(command: str, program: str) -> None:
    assert program_of(command) == program
