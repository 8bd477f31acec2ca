"""A step fails while a CUDA graph captures it; its memory stays reserved, and empty_cache() returns none of it."""

import gc

import torch
from resting import FIXED, rest

graph = torch.cuda.CUDAGraph()
torch.zeros(1, device="cuda")
with torch.cuda.stream(torch.cuda.Stream()):
    graph.capture_begin()
    try:
        rows = [torch.zeros(32 << 20, device="cuda", dtype=torch.uint8) for _ in range(2)]
        raise ValueError("the step failed")
    except ValueError:
        if FIXED:
            graph.capture_end()
rows = graph = None
gc.collect()
torch.cuda.empty_cache()
rest(torch.cuda.memory_reserved())
