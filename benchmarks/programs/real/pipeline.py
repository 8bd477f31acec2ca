"""A stage of a pipeline, one in each rank (1F1B), of as many ranks as the environment says."""

import itertools
import os

import torch
import torch.distributed as dist
from steps import without_cudnn
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

WIDTH, LAYERS, BATCH, MICROBATCHES = 1024, 4, 16, 4


def main() -> None:
    without_cudnn()
    dist.init_process_group("nccl")
    rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    layers = [nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)) for _ in range(LAYERS)]
    module = nn.Sequential(*layers).to("cuda")
    part = torch.empty(BATCH // MICROBATCHES, 128, WIDTH, device="meta", requires_grad=True)  # no other rank need run
    device = torch.device("cuda", local_rank)
    stage = PipelineStage(module, rank, dist.get_world_size(), device, input_args=part, output_args=part)
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)
    for step in itertools.count():
        batch = torch.randn(BATCH, 128, WIDTH, device="cuda")
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
