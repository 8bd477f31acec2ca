"""A transformer of 8 blocks, sharded by FSDP2: one rank of 8, or as the environment says, whose group moves nothing.

Its argument: "kept", where gathered parameters stay until the backward pass; or "offloaded", where shards are in host
memory.
"""

import itertools
import os
import sys

import torch
import torch.distributed as dist
from steps import update, without_cudnn
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

RANKS = int(os.environ.get("WORLD_SIZE", "8"))
BLOCKS = 8
WIDTH = 1024


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32_000, WIDTH)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 16, 4 * WIDTH, batch_first=True, norm_first=True) for _ in range(BLOCKS)
        )
        self.head = nn.Linear(WIDTH, 32_000)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(tokens)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden)


def sharded_model() -> Transformer:
    mesh = init_device_mesh("cuda", (RANKS,))
    options = {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)}
    if "kept" in sys.argv:
        options["reshard_after_forward"] = False
    elif "offloaded" in sys.argv:
        options["offload_policy"] = CPUOffloadPolicy()
    model = Transformer()
    for block in model.blocks:
        fully_shard(block, mesh=mesh, **options)
    fully_shard(model, mesh=mesh, **options)
    return model


def main() -> None:
    without_cudnn()
    dist.init_process_group("fake", rank=int(os.environ.get("RANK", "0")), world_size=RANKS, store=FakeStore())
    model = sharded_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in itertools.count():
        tokens = torch.randint(0, 32_000, (4, 513)).to("cuda")
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        update(step, loss, optimizer)


if __name__ == "__main__":
    main()
