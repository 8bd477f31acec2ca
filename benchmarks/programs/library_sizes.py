"""Has a CUDA context and then cuBLAS, when it is asked:  a line of standard input names what next.

Each answer is a line of JSON: {"reserved_bytes", "requests": what was asked for in the blocks that are new and that no
tensor holds}; after "context" also "known", the sizes of workspaces that gputui takes for granted here.
"""

import gc
import json
import sys
from collections import Counter

import torch

from gputui.probe.allocator.known_sizes import known_sizes

ROWS = 256


def requested() -> "Counter[int]":
    """How many blocks there are of each requested size."""
    segments = torch.cuda.memory_snapshot()
    blocks = [block for segment in segments for block in segment["blocks"] if block["state"] == "active_allocated"]
    return Counter(block["requested_size"] for block in blocks)


def context() -> None:
    """Begin to use the device."""
    held.append(torch.empty(1, device="cuda"))


def cublas() -> None:
    """Multiply: PyTorch takes a workspace out of its own allocator."""
    matrix = torch.zeros(ROWS, ROWS, device="cuda")
    torch.mm(matrix, matrix)


def cublaslt() -> None:
    """Multiply and add a bias."""
    matrix = torch.zeros(ROWS, ROWS, device="cuda")
    torch.nn.functional.linear(matrix, matrix, torch.zeros(ROWS, device="cuda"))


held: "list[torch.Tensor]" = []
for line in sys.stdin:
    before = requested()
    {"context": context, "cublas": cublas, "cublaslt": cublaslt}[line.strip()]()
    gc.collect()
    torch.cuda.synchronize()
    new = requested() - before
    known = {known["owner"]: known["size_bytes"] for known in known_sizes(torch, {0}, [])}
    answer = {"reserved_bytes": torch.cuda.memory_reserved(), "requests": [*new.elements()], "known": known}
    print(json.dumps(answer), flush=True)
