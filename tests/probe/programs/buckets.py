"""The sizes of DistributedDataParallel's buckets as the probe tells them, and as PyTorch's Reducer logs them.

Prints for each wrapper both lists before the first step (`first`) and after it (`then`), and what the probe knows.
"""

import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from gpt import GPT  # noqa: E402
from looking import print_json  # noqa: E402
from torch import nn  # noqa: E402

from gputui.probe.tensors import reducer_buckets  # noqa: E402

WRAPPERS = {"as it is": {}, "small": {"bucket_cap_mb": 1}, "unused": {"find_unused_parameters": True}}


def logged(wrapper, name):
    texts = wrapper.logger._get_ddp_logging_data().strs_map
    return [int(size) for size in texts.get(name, "").split(", ") if size]


def described(wrapper, step):
    step(wrapper)
    step(wrapper)  # the new buckets are there from the second step on
    sizes = [size for _, size in reducer_buckets._bucket_sizes(torch, wrapper)]
    return {"first": logged(wrapper, "bucket_sizes"), "then": logged(wrapper, "rebuilt_bucket_sizes"), "known": sizes}


def of_gpt(wrapper):
    wrapper(torch.zeros(2, 8, dtype=torch.long)).sum().backward()


def of_layers(wrapper):
    wrapper(torch.zeros(2, 300)).sum().backward()


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
DDP = nn.parallel.DistributedDataParallel
reports = {}
for name, options in WRAPPERS.items():
    reports[f"gpt, {name}"] = described(DDP(GPT(), **options), of_gpt)
    layers = nn.Sequential(*[nn.Linear(300, 300) for _ in range(40)])
    reports[f"layers, {name}"] = described(DDP(layers, **options), of_layers)
reports["views"] = described(DDP(nn.Linear(300, 300), gradient_as_bucket_view=True), of_layers)
dist.destroy_process_group()
print_json(reports)
