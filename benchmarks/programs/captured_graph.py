"""Captures a training step as a CUDA graph, and says at each stage what `empty_cache()` should and does release.

Prints {"stages": [{"name", "predicted_bytes", "released_bytes"}]}.
"""

from __future__ import annotations

import contextlib
import gc

import torch
from torch import nn

from gputui.explain.memory.release import predict_device
from tests.probe.programs.looking import look, print_json, statistics

ROWS, WIDTH, LAYERS = 512, 1024, 4
WARM_UP = 3
stages: list[dict[str, object]] = []


def stage(name: str) -> None:
    """Release what can be released now, and note it."""
    torch.cuda.synchronize()
    predicted_bytes = predict_device(look(), 0).releasable_bytes
    before_bytes = statistics(0)["reserved_bytes"]
    torch.cuda.empty_cache()
    released_bytes = before_bytes - statistics(0)["reserved_bytes"]
    stages.append({"name": name, "predicted_bytes": predicted_bytes, "released_bytes": released_bytes})


def litter() -> torch.Tensor:
    """Leaves blocks in the cache, and returns one that holds a segment."""
    tensors = [torch.empty(size << 20, dtype=torch.uint8, device="cuda") for size in (1, 3, 8, 24, 90)]
    return tensors[2]


def main() -> None:
    """Capture, replay, and let go."""
    with torch.device("cuda"):
        model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
    rows = torch.zeros(ROWS, WIDTH, device="cuda")

    def step() -> torch.Tensor:
        loss = model(rows).square().mean()
        loss.backward()
        return loss

    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(WARM_UP):
            step()
    held = [litter()]
    stage("before the capture")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    held.append(litter())
    stage("beside the graph")
    graph.replay()
    held.append(litter())
    stage("after a replay")
    model.zero_grad()
    del loss
    stage("without the graph's results")
    del graph
    gc.collect()
    held.clear()
    stage("without the graph")
    with contextlib.suppress(RuntimeError), torch.cuda.graph(torch.cuda.CUDAGraph()):
        fail(litter())
    stage("after a capture that failed")
    print_json({"stages": stages})


def fail(_kept: torch.Tensor) -> None:
    """End a capture as a program's own error does."""
    message = "an error within the capture"
    raise RuntimeError(message)


if __name__ == "__main__":
    main()
