"""Shared by the programs in this folder: one look by the probe, as the model objects that `explain` takes."""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

from gputui.explain.memory.release import predict_device
from gputui.model.attached.allocator import AllocatorMap
from gputui.model.attached.analysis import Release
from gputui.model.decode import decode
from gputui.probe.allocator.allocator import read_statistics, take_map
from gputui.probe.allocator.blockmap import describe_map
from gputui.probe.allocator.pools import PoolWatch
from gputui.protocol.tables import without_tables

WATCH = PoolWatch()


def as_map(fields: dict[str, Any]) -> AllocatorMap:
    return decode(AllocatorMap, json.loads(json.dumps(fields)))


def read_map(*, may_walk: bool = True) -> dict[str, Any] | None:
    taken = take_map(torch, WATCH, may_walk=may_walk)
    return without_tables({"map": describe_map(taken)})["map"] if taken else None


def look() -> AllocatorMap:
    return as_map(read_map())


def release(device: int = 0) -> Release:
    return predict_device(look(), device)


def statistics(device: int = 0) -> dict[str, int]:
    return read_statistics(torch)[device]


def driver_free(device: int) -> int:
    return torch.cuda.mem_get_info(device)[0]


def print_json(report: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()
