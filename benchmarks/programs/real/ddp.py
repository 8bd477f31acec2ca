"""A transformer of 8 blocks, trained by DistributedDataParallel in as many ranks as the environment says."""

import itertools
import os

import torch
import torch.distributed as dist
from fsdp2 import Transformer
from steps import update, without_cudnn
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    without_cudnn()
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = DistributedDataParallel(Transformer().to(local_rank), device_ids=[local_rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in itertools.count():
        tokens = torch.randint(0, 32_000, (4, 513)).to(local_rank)
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        update(step, loss, optimizer)


if __name__ == "__main__":
    main()
