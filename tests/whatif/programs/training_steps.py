"""A training: model, batch, and "whole" to record from the start, "middle" to record the last two of its steps.

Prints the peaks, with "middle" of the part that it records, and with "trace" the trace of the recorded part.
"kept-gradients" zeroes gradients in place, "evaluation" runs the forward pass alone, "endless" goes on after the
report, with the probe.
"""

from __future__ import annotations

import json
import sys
from itertools import count

import torch
from models import MODELS, batch_of, loss_of, optimizer_of
from trace_columns import columns

torch.backends.cudnn.enabled = False
torch.backends.cuda.enable_cudnn_sdp(False)
STEPS, RECORDED = 5, 2


def forward(model: torch.nn.Module, kind: str, batch: int) -> torch.Tensor:
    """One forward pass."""
    inputs, target = batch_of(kind, batch)
    return loss_of(model(inputs), target)


def main() -> None:
    """Train."""
    name, batch, what = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    torch.cuda.init()
    record = torch.cuda.memory._record_memory_history
    if what == "whole":
        record(enabled="all", context=None, max_entries=1_000_000)
    build, kind = MODELS[name]
    with torch.device("cuda"):
        model = build()
    optimizer = optimizer_of(model)
    for step in count():
        if step == STEPS:
            report()
            if "endless" not in sys.argv:
                break
        if step == STEPS - RECORDED and what == "middle":
            torch.cuda.reset_peak_memory_stats()
            record(enabled="all", context=None, max_entries=1_000_000)
        optimizer.zero_grad(set_to_none="kept-gradients" not in sys.argv)
        if "evaluation" in sys.argv:
            with torch.no_grad():
                forward(model, kind, batch)
        else:
            forward(model, kind, batch).backward()
            optimizer.step()


def report() -> None:
    """Print the peaks, and the trace if it was asked for."""
    stats = torch.cuda.memory_stats()
    peaks = {
        "peak_reserved_bytes": stats["reserved_bytes.all.peak"],
        "peak_allocated_bytes": stats["allocated_bytes.all.peak"],
        "reserved_bytes": stats["reserved_bytes.all.current"],
    }
    sys.stdout.write(json.dumps({**peaks, **(columns() if "trace" in sys.argv else {})}) + "\n")
    sys.stdout.flush()


if "endless" in sys.argv:
    import gputui.probe  # noqa: F401 - the probe listens from here on
main()
