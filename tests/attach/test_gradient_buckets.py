"""DistributedDataParallel's gradient buckets, which C++ holds, are told with their bytes and the remedy."""

from __future__ import annotations

import json

from tests.attach.children import Python
from tests.attach.command import attach

WRAPPED = """
    import gputui.probe, torch, torch.distributed as dist
    from torch import nn
    import torch.nn.parallel.distributed as implementation
    from torch.testing._internal.distributed.fake_pg import FakeStore

    implementation._verify_param_shape_across_processes = lambda *a, **k: True  # the fake GPU has no values to compare
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    with torch.device("cuda"):
        model = nn.Sequential(*[nn.Linear(1024, 1024, bias=False) for _ in range(128)])
    before = torch.cuda.memory_allocated()
    ddp = nn.parallel.DistributedDataParallel(model, device_ids=[0], init_sync=False)
    print("ready", torch.cuda.memory_allocated() - before, flush=True)
    input()
"""


def test_the_buckets_are_named_with_what_would_save_them(cuda_python: Python):
    child = cuda_python.fork(WRAPPED)
    bucket_bytes = int(child.expect("ready"))
    variables = {key: cuda_python.environment[key] for key in ("FAKEGPU_STATE", "LD_LIBRARY_PATH")}
    document = json.loads(attach(str(child.pid), "--once", "--json", environment=variables)[1])
    assert document["devices"][0]["tensors"]["by_category"]["unattributed"] == 0
    (found,) = [finding for finding in document["findings"] if finding["kind"] == "gradient_buckets"]
    assert found["title"].startswith("DistributedDataParallel keeps the gradient buckets of ddp")
    assert found["bytes"] == bucket_bytes
    assert "gradient_as_bucket_view=True" in found["remedy"]
