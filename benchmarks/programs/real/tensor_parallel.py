"""A Llama of 8 layers in bf16, its projections cut over as many ranks as the environment says (DTensor)."""

import itertools
import os

import torch
import torch.distributed as dist
from steps import update, without_cudnn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from transformers import LlamaConfig, LlamaForCausalLM

PLAN = {
    **{f"self_attn.{name}_proj": ColwiseParallel() for name in "qkv"},
    "self_attn.o_proj": RowwiseParallel(),
    **{f"mlp.{name}_proj": ColwiseParallel() for name in ("gate", "up")},
    "mlp.down_proj": RowwiseParallel(),
}


def main() -> None:
    without_cudnn()
    dist.init_process_group("nccl")
    ranks, local_rank = dist.get_world_size(), int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    config = LlamaConfig(num_hidden_layers=8, hidden_size=2048, intermediate_size=5504, use_cache=False)
    model = LlamaForCausalLM(config).to(torch.bfloat16).to("cuda")
    mesh = init_device_mesh("cuda", (ranks,))
    for layer in model.model.layers:
        parallelize_module(layer, mesh, PLAN)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, foreach=False)  # of both kinds of tensors
    for step in itertools.count():
        tokens = torch.randint(0, 32_000, (1, 512)).to("cuda")
        loss = model(input_ids=tokens, labels=tokens).loss
        update(step, loss, optimizer)


if __name__ == "__main__":
    main()
