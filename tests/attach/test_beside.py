"""What a real job of two ranks shows beside PyTorch's allocator: contexts, pinned memory, process groups, libraries."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import torches
from tests.attach.children import Python
from tests.attach.command import attach

RANK = """
    import os, sys, types
    import torch, torch.distributed as dist
    import gputui.probe
    rank = int(os.environ["RANK"])
    if rank == 1:
        torch.zeros(1, device="cuda:0")  # before set_device()
    torch.cuda.set_device(rank)
    sys.modules["nixl"] = types.ModuleType("nixl")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    offloaded = torch.empty(5 << 30, dtype=torch.uint8, pin_memory=True)
    held = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    print("ready", flush=True)
    input()
"""


@pytest.fixture
def small(cuda_path: str, tmp_path: Path, sockets: Path) -> Iterator[Python]:
    """A Python with a CUDA build of PyTorch and two fake devices of 16 GiB."""
    python = Python(cuda_path, tmp_path, torches.fake_cuda(cuda_path, tmp_path, memory_gib=16))
    yield python
    python.end()


def findings(pid: int, python: Python) -> dict[tuple[int, str], dict[str, Any]]:
    variables = {name: python.environment[name] for name in ("FAKEGPU_STATE", "LD_LIBRARY_PATH")}
    status, output, errors = attach(str(pid), "--once", "--json", environment=variables)
    assert status == 0, errors
    return {(finding["device"], finding["kind"]): finding for finding in json.loads(output)["findings"]}


def test_a_context_on_another_ranks_device_and_rounded_pinned_memory_are_found(small: Python) -> None:
    ranks = [small.fork(RANK, RANK=str(rank), WORLD_SIZE="2") for rank in range(2)]
    for rank in ranks:
        rank.expect("ready")
    first, second = (findings(rank.pid, small) for rank in ranks)
    context = second[0, "idle_context"]
    assert context["evidence"] == [f"NVML lists it here with {context['bytes'] >> 20} MiB; its tensors are on cuda:1."]
    assert [kind for device, kind in second if device == 0] == ["idle_context"]
    assert first[0, "visitors"]["bytes"] == context["bytes"]
    assert f"PID {ranks[1].pid}. This job has 2 ranks." in first[0, "visitors"]["evidence"][0]
    assert (0, "others") not in first
    with ranks[0].attach() as client:
        assert (client.greeting.collectives, client.greeting.libraries) == ("gloo", ("nixl",))
        if client.statistics().pinned_bytes is not None:  # it is in PyTorch 2.4
            pinned = "adds 3.0 GiB to 1 tensor: offloaded takes 8.0 GiB for 5.0 GiB."
            assert first[0, "pinned_rounding"]["evidence"][0].endswith(pinned)
