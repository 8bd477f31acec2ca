"""The attach document: the names scripts rely on, sums that add up, and null with a reason for unread fields."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gputui.explain.attach_document import attach_document
from gputui.explain.probe_state import ProbeState, layouts_of, moment_among
from gputui.model.analysis import DriverFacts
from gputui.model.moment import Surroundings, TargetMoment
from gputui.model.reading import Absent, Problem
from gputui.model.target import Cost, Greeting, Look, TorchDevice
from gputui.model.tensors import HOST, Category, Inventory, Storage
from gputui.units import MIB
from tests.explain.maps import BASE, layout, segment, settings, statistics

WEIGHT = Storage(0, BASE, 4 * MIB, Category.PARAMETER, "model.fc.weight", "Parameter", (1024, 1024), "float32")
BATCH = Storage(HOST, 4096, 1000, Category.OTHER, "batch", "Tensor", (250,), "float32")
INVENTORY = Inventory((WEIGHT, BATCH), how="walk", is_of_one_moment=True)
MAP = layout(segment(("live", 4), ("waits", 6), ("free", 10), slack=1000), segment(("free", 20), address=1 << 40))
GREETING = Greeting(7, "python train.py", "3.12.3", "2.11.0+cu130", None, None, True, (TorchDevice(0, "GPU-a"),))
LOOK = Look(1.0, (statistics(MAP),), settings(), MAP, INVENTORY, Cost(1.5, 2.0))
DRIVER = DriverFacts(2, 80 * 1024 * MIB, 700 * MIB, 558 * MIB)
FALL = "reserved memory would fall from 40.0 MiB to 20.0 MiB. Not returned: 10.0 MiB stuck beside live blocks."
UNREAD = Absent("insufficient permissions")


def document(look: Look = LOOK, greeting: Greeting = GREETING, driver: DriverFacts | None = DRIVER, **keywords):
    return json.loads(
        json.dumps(attach_document(moment_of_look(look, greeting, {0: driver} if driver else {}), **keywords))
    )


def moment_of_look(look: Look, greeting: Greeting, drivers: dict[int, DriverFacts]) -> TargetMoment:
    state = ProbeState(greeting, look.statistics, look, layouts_of(look), pinned_bytes=6)
    return moment_among(state, Surroundings(look.time, tuple(drivers.items()), rss_bytes=5))


def test_the_document_of_a_look():
    assert document() == {
        "schema": "gputui.attach/1",
        "pid": 7,
        "command": "python train.py",
        "python": "3.12.3",
        "torch": "2.11.0+cu130",
        "rank": None,
        "world_size": None,
        "host": {"rss_bytes": 5, "pinned_bytes": 6, "cpu_tensor_bytes": 1000},
        "devices": [
            {
                "index": 0,
                "uuid": "GPU-a",
                "nvml_index": 2,
                "nvml": {
                    "device_total_bytes": 81920 * MIB,
                    "device_used_bytes": 700 * MIB,
                    "process_used_bytes": 558 * MIB,
                },
                "allocator": {
                    "backend": "native",
                    "settings": {},
                    "requested_bytes": 4 * MIB - 1000,
                    "allocated_bytes": 4 * MIB,
                    "active_bytes": 10 * MIB,
                    "reserved_bytes": 40 * MIB,
                    "peak_allocated_bytes": 4 * MIB,
                    "peak_reserved_bytes": 40 * MIB,
                    "segments": 2,
                    "blocks": 2,
                    "num_alloc_retries": 0,
                    "num_ooms": 0,
                },
                "composition": {
                    "requested_bytes": 4 * MIB - 1000,
                    "rounding_bytes": 1000,
                    "pending_bytes": 6 * MIB,
                    "stuck_bytes": 10 * MIB,
                    "private_pool_free_bytes": 0,
                    "releasable_bytes": 20 * MIB,
                },
                "outside_torch_bytes": 518 * MIB,
                "empty_cache": {
                    "releasable_bytes": 20 * MIB,
                    "segments": [
                        {
                            "address": BASE,
                            "size_bytes": 20 * MIB,
                            "releasable_bytes": 0,
                            "stuck_bytes": 10 * MIB,
                            "blockers": [{"address": BASE, "size_bytes": 4 * MIB, "owner": "model.fc.weight"}],
                        },
                        {
                            "address": 1 << 40,
                            "size_bytes": 20 * MIB,
                            "releasable_bytes": 20 * MIB,
                            "stuck_bytes": 0,
                            "blockers": [],
                        },
                    ],
                },
                "tensors": {
                    "by_category": dict.fromkeys([c.value for c in Category], 0) | {"parameter": 4 * MIB},
                    "by_module": {"model.fc": {"parameter": 4 * MIB}},
                    "groups": [
                        {
                            "category": "parameter",
                            "type": "Parameter",
                            "shape": [1024, 1024],
                            "dtype": "float32",
                            "count": 1,
                            "bytes": 4 * MIB,
                            "names": ["model.fc.weight"],
                        }
                    ],
                },
            }
        ],
        "findings": [
            {
                "kind": "gap",
                "weight": "fact",
                "device": 0,
                "title": "NVML shows 558 MiB for this process where PyTorch has 4.0 MiB allocated.",
                "evidence": ["The difference: 36.0 MiB in PyTorch's cache and 518 MiB outside PyTorch."],
                "remedy": "",
                "bytes": 554 * MIB,
            },
            {
                "kind": "release",
                "weight": "fact",
                "device": 0,
                "title": "empty_cache() would return 20.0 MiB now.",
                "evidence": [f"1 segment of 2 would be released, wholly or in part; {FALL}"],
                "remedy": "That helps other processes on the device only: PyTorch reuses its cache without it.",
                "bytes": 20 * MIB,
            },
        ],
        "failure": None,
        "cost": {"pause_ms": 1.5, "probe_cpu_ms": 2.0},
        "problems": [],
    }


# name: changes, path of the null, words of its reason
NULLS = {
    "NVML does not report the process": (
        {"driver": replace(DRIVER, process_used_bytes=UNREAD)}, ("nvml", "process_used_bytes"), "insufficient",
    ),
    "NVML lags behind": (
        {"driver": replace(DRIVER, process_used_bytes=MIB)}, ("outside_torch_bytes",), "different moments",
    ),
    "no NVML at all": ({"driver": None}, ("nvml", "device_total_bytes"), "NVML was not asked"),
    "the look has no tensors": ({"look": replace(LOOK, inventory=None)}, ("tensors",), "not looked at"),
    "cudaMallocAsync has no map": (
        {"look": replace(LOOK, map=None, settings=settings(backend="cudaMallocAsync"))}, ("empty_cache",),
        "cudaMallocAsync",
    ),
    "a pluggable allocator": (
        {"look": replace(LOOK, map=None, settings=settings(backend="pluggable"))}, ("composition",), "by its own",
    ),
    "an unknown allocator": (
        {"look": replace(LOOK, map=None, settings=settings(backend="new"))}, ("composition",), "is new",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "path", "words"), NULLS.values(), ids=NULLS.keys())
def test_a_field_that_could_not_be_read_is_null_with_a_reason(changes, path, words):
    made = document(**changes)
    value = made["devices"][0]
    for key in path:
        value = value[key]
    assert value is None
    assert any(words in sentence for sentence in made["problems"])


def test_without_a_map_the_storages_still_add_up_to_allocated():
    look = replace(LOOK, map=None, statistics=(statistics(MAP, allocated_bytes=9 * MIB),))
    by_category = document(look)["devices"][0]["tensors"]["by_category"]
    assert (by_category["parameter"], by_category["unattributed"]) == (4 * MIB, 5 * MIB)


# name: changes, words of the problem
NOTES = {
    "before PyTorch is imported": (
        {"greeting": replace(GREETING, torch="", is_cuda_initialized=False)}, "not imported PyTorch",
    ),
    "before CUDA is initialised": ({"greeting": replace(GREETING, is_cuda_initialized=False)}, "not initialised CUDA"),
    "a graph is being captured": ({"look": replace(LOOK, map=replace(MAP, routed_devices=(0,)))}, "being captured"),
    "a problem of the map": ({"look": replace(LOOK, map=replace(MAP, problems=(Problem("A pool."),)))}, "A pool."),
    "a problem of the look": ({"look": replace(LOOK, problems=(Problem("Late."),))}, "Late."),
    "a problem of the caller": ({"problems": ("From the client.",)}, "From the client."),
    "map and counters differ": (
        {"look": replace(LOOK, statistics=(statistics(MAP, reserved_bytes=1),))}, "during the look",
    ),
    "tensors and map of different moments": (
        {"look": replace(LOOK, inventory=replace(INVENTORY, is_of_one_moment=False))}, "not read at the same moment",
    ),
    "tensors of another process": (
        {"look": replace(LOOK, inventory=replace(INVENTORY, storages=(replace(WEIGHT, address=1),)))}, "outside PyT",
    ),
    "no caching": (
        {"look": replace(LOOK, map=replace(MAP, settings=settings(values=(("PYTORCH_NO_CUDA_MEMORY_CACHING", "1"),))))},
        "caches nothing",
    ),
    "pages that contradict the settings": (
        {"look": replace(LOOK, map=layout(segment(("free", 32), is_expandable=True)))}, "large_segment_size_mb",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "words"), NOTES.values(), ids=NOTES.keys())
def test_conditions_that_affect_the_figures_are_listed_as_problems(changes, words):
    assert any(words in sentence for sentence in document(**changes)["problems"])


def test_a_process_without_devices_has_an_empty_list():
    look = replace(LOOK, statistics=(), map=None, settings=None)
    assert document(look, replace(GREETING, is_cuda_initialized=False))["devices"] == []
