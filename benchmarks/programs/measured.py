"""Runs a program on the GPU up to the third step of an optimizer, and says what PyTorch had: SCRIPT ARGUMENT...

There, `gputui check --run` stops as well. The answer goes into the file that GPUTUI_MEASURED names, as JSON.
"""

import collections
import json
import os
import runpy
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.testing._internal.distributed.fake_pg import FakeStore

REPORT = "GPUTUI_MEASURED"
steps = collections.Counter()


def report() -> None:
    """Write the peaks, and end."""
    stats = torch.cuda.memory_stats()
    peaks = {f"peak_{name}_bytes": stats[f"{name}_bytes.all.peak"] for name in ("reserved", "allocated")}
    Path(os.environ[REPORT]).write_text(json.dumps(peaks))
    os._exit(0)


def before(optimizer: object, _args: object, _kwargs: object) -> None:
    """Count a step; two are enough."""
    if steps[id(optimizer)] == 2:
        report()
    steps[id(optimizer)] += 1


def join_without_nccl() -> None:
    """Have the process group be gloo's where the other ranks run, too, and elsewhere one that moves nothing."""
    join = dist.init_process_group
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if "MASTER_PORT" in os.environ:
        dist.init_process_group = lambda *_, **__: join("gloo")
    else:
        dist.init_process_group = lambda *_, **__: join("fake", rank=rank, world_size=size, store=FakeStore())


register_optimizer_step_pre_hook(before)
if "WORLD_SIZE" in os.environ:
    join_without_nccl()
sys.argv[:] = sys.argv[1:]
sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
runpy.run_path(sys.argv[0], run_name="__main__")
report()
