"""Programs run under real settings, and their traces as the what-if takes them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gputui.explain.whatif.allocator.settings import DEFAULTS, Device, with_settings
from gputui.explain.whatif.replay.recorded import Recorded, recorded, with_order
from gputui.explain.whatif.trace.operations import operations_of
from gputui.model.attached.allocator import AllocatorSettings, Block, BlockState, Segment
from gputui.model.attached.trace import Trace
from gputui.sources.files.torch_snapshot.segments import settings_of as snapshot_settings
from tests import torches

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def run(cuda_path, tmp_path_factory) -> Callable[..., dict[str, Any]]:
    """Gives the report of a program of this folder, run once under these settings of the allocator."""

    def run_program(
        name: str, *arguments: object, settings: str = "", variables: Mapping[str, str] = torches.NOTHING
    ) -> dict[str, Any]:
        surroundings = {"PYTORCH_CUDA_ALLOC_CONF": settings, **variables}
        words = map(str, arguments)
        return torches.run_once(tmp_path_factory, cuda_path, PROGRAMS / name, *words, variables=surroundings)

    return run_program


WORKSPACE = {"FAKEGPU_CUBLAS_HANDLES": "1"}
"""Each thread has a handle of cuBLAS, and so a workspace, as on a GPU."""


@pytest.fixture(scope="session")
def reports(torch_path, tmp_path_factory) -> dict[str, dict[str, Any]]:
    """The reports on the functions in `ahead.py`, on tensors without data."""
    forms = ("evaluation", "dictionary", "on_host", "step", "masked")
    mistakes = ("number", "broken", "unknown_size", "compiled", "evaluatoin")
    names = ("gpt", "lora", "resnet", "unet", *forms, *mistakes)
    return torches.run_once(tmp_path_factory, torch_path, PROGRAMS / "ahead.py", *names, variables=WORKSPACE)


def settings_of(settings: dict[str, Any], report: dict[str, Any], device: Device) -> AllocatorSettings:
    """What PyTorch says that it is set to, with the order among equal blocks that a trace without a map shows."""
    told = replace(snapshot_settings({"allocator_settings": settings}, ()), values=())
    return with_order(told, operations_of(trace_of(report), ()), device, None)


def trace_of(report: dict[str, Any]) -> Trace:
    """The trace in a report."""
    count = len(report["actions"])
    calls = report.get("empty_cache_calls", [])
    return Trace(
        0,
        bytes(report["actions"]),
        array("Q", report["addresses"]),
        array("Q", report["sizes_bytes"]),
        array("Q", report["streams"]),
        array("q", [0]) * count,
        array("i", [-1]) * count,
        empty_cache_calls=tuple(calls),
    )


def recorded_in(report: dict[str, Any], settings: str = "") -> Recorded:
    """What a report holds, ready for a replay; recorded under `settings`."""
    segments = [segment_of(entry) for entry in report["segments"]]
    return recorded(trace_of(report), segments, with_settings(DEFAULTS, settings))


def segment_of(entry: dict[str, Any]) -> Segment:
    blocks = tuple(
        Block(block["address"], block["size"], block["requested_size"], BlockState(block["state"]))
        for block in entry["blocks"]
    )
    return Segment(
        0,
        entry["address"],
        entry["total_size"],
        entry["stream"],
        entry["segment_type"] == "small",
        entry["is_expandable"],
        tuple(entry["segment_pool_id"]),
        blocks,
    )
