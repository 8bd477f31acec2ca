"""The attach document: the names scripts rely on, sums that add up, and null with a reason for unread fields."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gputui.explain.documents.attach import attach_document
from gputui.explain.moment.probe_state import ProbeState, layouts_of, moment_among
from gputui.model.attached.analysis import DriverFacts
from gputui.model.attached.moment import Surroundings, TargetMoment
from gputui.model.attached.target import Cost, Cycles, Garbage, Greeting, Look, TorchDevice
from gputui.model.attached.tensors import HOST, Category, Inventory, Storage
from gputui.model.reading import Absent, Problem
from gputui.units import MIB
from tests.explain.maps import BASE, layout, segment, settings, statistics
from tests.explain.named import named

WEIGHT = Storage(0, BASE, 4 * MIB, Category.PARAMETER, named("model.fc.weight"), "Parameter", (1024, 1024), "float32")
BATCH = Storage(HOST, 4096, 1000, Category.OTHER, named("batch"), "Tensor", (250,), "float32")
INVENTORY = Inventory((WEIGHT, BATCH), how="walk", is_of_one_moment=True)
MAP = layout(segment(("live", 4), ("waits", 6), ("free", 10), slack=1000), segment(("free", 20), address=1 << 40))
GREETING = Greeting(7, "python train.py", "3.12.3", "2.11.0+cu130", None, None, True, (TorchDevice(0, "GPU-a"),))
LOOK = Look(1.0, (statistics(MAP),), settings(), MAP, INVENTORY, Cost(1.5, 2.0))
NO_GARBAGE = Garbage(1.0)
DRIVER = DriverFacts(2, 80 * 1024 * MIB, 700 * MIB, 558 * MIB)
FALL = "reserved memory would fall from 40.0 MiB to 20.0 MiB. Not returned: 10.0 MiB stuck beside live blocks."
UNREAD = Absent("insufficient permissions")


def document(
    look: Look = LOOK,
    greeting: Greeting = GREETING,
    driver: DriverFacts | None = DRIVER,
    garbage: Garbage | None = NO_GARBAGE,
    **keywords,
):
    moment = replace(moment_of_look(look, greeting, {0: driver} if driver else {}), garbage=garbage)
    return json.loads(json.dumps(attach_document(moment, **keywords)))


def moment_of_look(look: Look, greeting: Greeting, drivers: dict[int, DriverFacts]) -> TargetMoment:
    state = ProbeState(greeting, look.statistics, look, layouts_of(look), pinned_bytes=6)
    return moment_among(state, Surroundings(look.time, tuple(drivers.items()), rss_bytes=5))


def test_the_document_of_a_look():
    assert document() == {
        "schema": "gputui.attach/1",
        "node": None,
        "pid": 7,
        "command": "python train.py",
        "python": "3.12.3",
        "torch": "2.11.0+cu130",
        "rank": None,
        "world_size": None,
        "serving": None,
        "process_groups": [],
        "main_thread": None,
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
                    "least_bytes": 20 * MIB,
                    "most_bytes": 20 * MIB,
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
                "gc_collect": {"freed_bytes": 0, "is_least": False, "groups": []},
                "step": None,
                "tensors": {
                    "by_category": dict.fromkeys([c.value for c in Category if c is not Category.NEWER], 0)
                    | {"parameter": 4 * MIB},
                    "not_yet_bytes": 0,
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
                "kind": "release",
                "weight": "fact",
                "device": 0,
                "title": "empty_cache() would return 20.0 MiB now.",
                "evidence": [f"From 1 of 2 segments; {FALL}"],
                "remedy": "That helps only other processes on the device: PyTorch itself reuses its cache.",
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


@pytest.mark.parametrize("part", [{}, {"is_complete": False}, {"may_find_more": True}], ids=str)
def test_what_was_not_searched_for_yet_is_told_apart(part: dict[str, bool]):
    inventory = replace(INVENTORY, storages=(BATCH,), **part)
    tensors = document(replace(LOOK, inventory=inventory))["devices"][0]["tensors"]
    unattributed = tensors["by_category"]["unattributed"]
    assert tensors["not_yet_bytes"] == (unattributed if part else 0)
    assert unattributed == sum(tensors["by_category"].values()) > 0


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


def test_devices_on_which_the_process_holds_nothing_are_left_out_with_their_problems():
    nothing = dict.fromkeys(("peak_allocated_bytes", "peak_reserved_bytes"), 5 * MIB)  # it held something once
    greeting = replace(GREETING, devices=(*GREETING.devices, TorchDevice(1, "GPU-b")))
    look = replace(LOOK, statistics=(*LOOK.statistics, statistics(MAP, 1, **nothing)))
    alone = document(look, greeting)
    assert [device["index"] for device in alone["devices"]] == [0]
    assert alone["problems"] == []


HELD = {
    "a CUDA context": ({"driver": {1: replace(DRIVER, process_used_bytes=300 * MIB)}}, {}),
    "reserved memory": ({}, {"reserved_bytes": 2 * MIB}),
    "an allocation that failed": ({}, {"num_ooms": 1}),
    "a tensor that PyTorch did not allocate": ({"storages": (replace(WEIGHT, device=1),)}, {}),
}


@pytest.mark.parametrize(("changes", "counters"), HELD.values(), ids=HELD.keys())
def test_a_device_on_which_the_process_holds_something_is_listed(changes, counters):
    inventory = replace(INVENTORY, storages=changes.get("storages", ()))
    look = replace(LOOK, statistics=(statistics(MAP, 1, **counters),), inventory=inventory)
    moment = moment_of_look(look, GREETING, changes.get("driver", {}))
    assert [device["index"] for device in attach_document(moment)["devices"]] == [1]


def test_findings_name_their_device_and_problems_of_any_device_come_first():
    full = layout(segment(("live", 20), device=1, address=1 << 41))
    both = replace(MAP, segments=(*MAP.segments, *full.segments))
    look = replace(LOOK, map=both, statistics=(statistics(MAP), statistics(full, 1, num_ooms=1)))
    findings = document(look)["findings"]
    assert [(finding["kind"], finding["device"]) for finding in findings] == [("out_of_memory", 1), ("release", 0)]


SAVED = replace(
    WEIGHT,
    category=Category.ACTIVATION,
    owner=named("self of GeluBackward0"),
    module="model.fc",
    address=BASE + 4 * MIB,
)
GRADIENT = replace(WEIGHT, category=Category.GRADIENT, owner=named("model.fc.weight.grad"), address=BASE + 8 * MIB)
CACHE = replace(WEIGHT, category=Category.KV_CACHE, owner=named("cache.layers[0].keys"), address=BASE + 12 * MIB)
BY_MODULE = {"model.fc": dict.fromkeys(("parameter", "activation", "gradient"), 4 * MIB)}


@pytest.mark.parametrize("has_map", [True, False], ids=["blocks", "storages without a map"])
def test_modules_have_their_activations_too(has_map):
    made = layout(segment(*[("live", 4)] * 4))
    inventory = replace(INVENTORY, storages=(WEIGHT, SAVED, GRADIENT, CACHE))
    look = replace(LOOK, map=made if has_map else None, inventory=inventory, statistics=(statistics(made),))
    tensors = document(look)["devices"][0]["tensors"]
    assert tensors["by_module"] == BY_MODULE
    assert tensors["by_category"]["kv_cache"] == 4 * MIB
    assert sum(tensors["by_category"].values()) == 16 * MIB


def test_without_a_look_the_counters_are_there_and_the_rest_is_null():
    moment = moment_among(ProbeState(GREETING, LOOK.statistics), Surroundings(1.0))
    made = attach_document(moment)
    assert made["devices"][0]["allocator"]["reserved_bytes"] == 40 * MIB
    assert [made["cost"], made["devices"][0]["composition"], made["devices"][0]["tensors"]] == [None] * 3
    assert "The tensors were not looked at." in made["problems"]


def test_what_a_collection_frees_is_counted_in_blocks():
    first = next(block for segment in MAP.segments for block in segment.blocks)
    closed_by = "hook (train.py:14) refers to the Net that holds it"
    cycles = Cycles(0, "Net", 2, closed_by, ((first.address, first.size_bytes - 1), (1 << 50, 1000)))
    (device,) = document(garbage=Garbage(1.0, (cycles,)))["devices"]
    freed = first.size_bytes + 1024
    assert device["gc_collect"] == {
        "freed_bytes": freed,
        "is_least": False,
        "groups": [{"count": 2, "type": "Net", "bytes": freed, "closed_by": closed_by}],
    }


@pytest.mark.parametrize(
    ("garbage", "reason"), [(None, "was not looked for"), (Garbage(1.0, reason="It changes."), "It changes.")]
)
def test_where_it_is_not_known_the_reason_is_among_the_problems(garbage, reason):
    without = document(garbage=garbage)
    assert without["devices"][0]["gc_collect"] is None
    assert reason in " ".join(without["problems"])
