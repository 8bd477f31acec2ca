"""Data that a program keeps on the device is the variable's, also while a graph has saved a batch of it."""

from __future__ import annotations

import json

import pytest

from tests.attach.children import Python
from tests.attach.command import attach

DATA_BYTES = 8192 * 1024 * 4
BATCHES = """
    import gputui.probe, torch
    from torch import nn

    data = torch.randn(8192, 1024, device="cuda")
    layer = nn.Linear(1024, 512, device="cuda")
    loss = layer({batch}).sum()
    print("ready", flush=True)
    input()
"""


@pytest.mark.parametrize(
    ("batch", "category"),
    [("data[512:1024]", "other"), ("data", "activation")],
    ids=["a batch of the data", "all of it"],
)
def test_only_what_a_graph_has_saved_as_a_whole_is_an_activation(cuda_python: Python, batch: str, category: str):
    child = cuda_python.fork(BATCHES.format(batch=batch))
    child.expect("ready")
    variables = {key: cuda_python.environment[key] for key in ("FAKEGPU_STATE", "LD_LIBRARY_PATH")}
    document = json.loads(attach(str(child.pid), "--once", "--json", environment=variables)[1])
    groups = document["devices"][0]["tensors"]["groups"]
    (group,) = [group for group in groups if group["bytes"] == DATA_BYTES]
    assert (group["category"], group["names"], group["shape"]) == (category, ["data"], [8192, 1024])
