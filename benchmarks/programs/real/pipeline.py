"""A stage of a pipeline, one in each rank (1F1B), of as many ranks as the environment says."""

import itertools
import os

import torch
import torch.distributed as dist
from steps import without_cudnn
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

WIDTH, LAYERS, MICROBATCHES = 1024, 4, 4


def main() -> None:
    without_cudnn()
    dist.init_process_group("nccl")
    rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    layers = [nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)) for _ in range(LAYERS)]
    module = nn.Sequential(*layers).to("cuda")
    stage = PipelineStage(module, rank, dist.get_world_size(), torch.device("cuda", local_rank))
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)
    for step in itertools.count():
        batch = torch.randn(16, 128, WIDTH, device="cuda")
        losses: list[torch.Tensor] = []
        if rank == 0:
            schedule.step(batch)
        else:
            schedule.step(target=batch, losses=losses)
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}", flush=True)


if __name__ == "__main__":
    main()
