"""Snapshots written by real programs: their figures are those that PyTorch reports at that moment."""

from __future__ import annotations

import json

import pytest

from gputui.sources.files.torch_snapshot.snapshot import open_snapshot
from tests.attach.children import Python
from tests.attach.small_training import TRAINING

RECORD = """
    import torch
    if torch.cuda.is_available():
        torch.cuda.memory._record_memory_history(stacks="python")
"""
DUMP = """
    import json
    step()
    if device == "cuda":
        torch.cuda.memory._dump_snapshot("step.pickle")
        figures = [torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), torch.cuda.max_memory_reserved()]
        print("figures " + json.dumps(figures), flush=True)
    else:
        print("figures []", flush=True)
"""


@pytest.mark.every_torch
def test_a_snapshot_of_a_training_has_pytorchs_figures(torch_python: Python) -> None:
    child = torch_python.fork(RECORD + TRAINING + DUMP)
    child.expect("ready")
    figures = json.loads(child.expect("figures "))
    if not figures:
        return
    moment = open_snapshot(torch_python.folder / "step.pickle")
    counters = moment.devices[0].statistics
    assert [counters.allocated_bytes, counters.reserved_bytes, counters.peak_reserved_bytes] == figures
    (trace,) = moment.traces
    assert trace.is_whole
