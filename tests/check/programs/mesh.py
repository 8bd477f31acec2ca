"""A model whose layers are cut and sharded as a mesh says; as a program, one that is cut into stages of a pipeline."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.checkpoint import checkpoint

WIDTH, LAYERS, MICROBATCHES = 256, 2, 4


class Layer(nn.Module):
    """Up and down again."""

    def __init__(self, *, is_checkpointed: bool = False, width: int = WIDTH) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.is_checkpointed = is_checkpointed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.run, x, use_reentrant=False) if self.is_checkpointed else self.run(x)

    def run(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(x)))


def setup(mesh: DeviceMesh, tp: int, batch: int = 8, *, checkpointing: bool = False) -> Any:
    """What `gputui check --mesh dp=2,tp=2 mesh:setup` rehearses."""
    layers = [Layer(is_checkpointed=checkpointing) for _ in range(LAYERS)]
    model = nn.Sequential(*layers).to("cuda")
    for layer in layers:
        if tp > 1:
            parallelize_module(layer, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        fully_shard(layer, mesh=mesh["dp"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)
    return model, optimizer, torch.randn(batch, 1024, WIDTH)


def main() -> None:
    """Steps of a stage, each of which takes half of what it is given for the next one; none with an argument."""
    if sys.argv[1:]:
        sys.exit(3)
    mesh = init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]),))
    rank, device = mesh.get_rank(), torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    module = nn.Sequential(Layer(width=WIDTH >> rank), nn.Linear(WIDTH >> rank, WIDTH >> rank + 1)).to(device)
    stage = PipelineStage(module, rank, mesh.size(), device)
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=lambda output, _target: output.sum())
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)
    while True:
        batch = torch.randn(16, 128, WIDTH, device=device)
        schedule.step(*(batch,) if rank == 0 else (), **{} if rank == 0 else {"target": batch, "losses": []})
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
