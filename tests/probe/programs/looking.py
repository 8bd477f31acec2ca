"""Shared by the programs in this folder: one look by the probe, as the model objects that `explain` takes."""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

from gputui.explain.memory.release import predict_device
from gputui.model.attached.allocator import (
    AllocatorMap,
    AllocatorSettings,
    AllocatorStatistics,
    Block,
    BlockState,
    PrivatePool,
    Segment,
)
from gputui.model.attached.analysis import Release
from gputui.model.reading import Problem
from gputui.probe.allocator.allocator import read_statistics, take_map
from gputui.probe.allocator.blockmap import describe_map
from gputui.probe.allocator.pools import PoolWatch
from gputui.protocol.tables import without_tables
from gputui.sources.probe.decode import decode

WATCH = PoolWatch()


def as_map(fields: dict[str, Any]) -> AllocatorMap:
    return AllocatorMap(
        segments=tuple(_segment(entry) for entry in fields["segments"]),
        private_pools=tuple(
            PrivatePool(**entry | {"pool_id": tuple(entry["pool_id"])}) for entry in fields["private_pools"]
        ),
        routed_devices=tuple(fields["routed_devices"]),
        settings=_settings(fields["settings"]),
        problems=tuple(decode(Problem, problem) for problem in fields["problems"]),
        unsure_devices=tuple(fields["unsure_devices"]),
    )


def _settings(fields: dict[str, Any]) -> AllocatorSettings:
    pairs = tuple(tuple(pair) for pair in fields["values"])
    return AllocatorSettings(**fields | {"values": pairs, "roundup_divisions": tuple(fields["roundup_divisions"])})


def _segment(entry: dict[str, Any]) -> Segment:
    blocks = tuple(Block(**block | {"state": BlockState(block["state"])}) for block in entry["blocks"])
    return Segment(**entry | {"pool_id": tuple(entry["pool_id"]), "blocks": blocks})


def read_map(*, may_walk: bool = True) -> dict[str, Any] | None:
    taken = take_map(torch, WATCH, may_walk=may_walk)
    return without_tables({"map": describe_map(taken)})["map"] if taken else None


def look() -> AllocatorMap:
    return as_map(read_map())


def release(device: int = 0) -> Release:
    return predict_device(look(), device)


def statistics(device: int = 0) -> dict[str, int]:
    return read_statistics(torch)[device]


def as_statistics(device: int = 0) -> AllocatorStatistics:
    return AllocatorStatistics(**statistics(device))


def driver_free(device: int) -> int:
    return torch.cuda.mem_get_info(device)[0]


def print_json(report: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()
