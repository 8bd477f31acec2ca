"""Moments of programs whose memory lies beside PyTorch's allocator: contexts, NCCL, pinned memory, unmapped pools."""

from __future__ import annotations

from dataclasses import replace

from gputui.model.attached.analysis import Visitor
from gputui.model.attached.moment import HostMoment
from gputui.model.attached.tensors import HOST, Category, Storage
from gputui.units import GIB, MIB
from tests.explain.maps import pool, segment
from tests.explain.moments import Story, moment, story
from tests.explain.named import named

FAR = 1 << 40
WHOLE_MIB = 80 * 1024
SLEEPING = (1, 0)


def on_another_device(used_mib: float | None = 512, live_mib: float = 0, **counters: int) -> Story:
    """A process that works on cuda:1; NVML lists it on cuda:0, too."""
    parts = [segment(("live", live_mib))] if live_mib else []
    here = moment(*parts, used_mib=used_mib, **counters)
    (one,) = moment(segment(("live", 900))).devices
    there = replace(one, index=1, statistics=replace(one.statistics, device=1))
    return story(replace(here, devices=(*here.devices, there)))


def visited(*used_mib: int, others_mib: int = 0, world_size: int | None = 8) -> Story:
    """A process with 1 GiB, and others that work on other devices with a little here."""
    now = moment(segment(("live", 1000)), used_mib=1500, others_mib=sum(used_mib) + others_mib, world_size=world_size)
    (device,) = now.devices
    guests = tuple(Visitor(100 + n, size * MIB, 40 * GIB) for n, size in enumerate(used_mib))
    driver = replace(device.driver, visitors=guests)
    return story(replace(now, devices=(replace(device, driver=driver),)))


def collective(live: float, cached: float, free: float, backend: str = "nccl") -> Story:
    """A rank with these MiB allocated, cached, and free on the device."""
    parts = segment(("live", live)), segment(("free", cached), address=FAR)
    now = moment(*parts, used_mib=WHOLE_MIB - free)
    return story(replace(now, greeting=replace(now.greeting, collectives=backend)))


def pinned(*mib: float, held_mib: float = 1 << 20, is_pinned: bool = True) -> Story:
    """A process with host tensors of these sizes."""
    storages = tuple(
        Storage(HOST, FAR + n, int(size * MIB), Category.PARAMETER, named(f"offloaded[{n}]"), "Tensor", (), "float32",
                is_pinned=is_pinned)
        for n, size in enumerate(mib)
    )  # fmt: skip
    now = moment(segment(("live", 100)))
    host = HostMoment(storages=storages, pinned_bytes=int(held_mib * MIB))
    return story(replace(now, host=host))


def asleep(pool_mib: float, used_mib: float | None, live_mib: float = 100) -> Story:
    """A process whose pool has so many MiB, and what NVML shows for it."""
    parts = segment(("live", live_mib)), segment(("live", pool_mib), address=FAR, pool_id=SLEEPING)
    return story(moment(*parts, used_mib=used_mib, keywords={"pools": [pool(SLEEPING, "torch.cuda.MemPool")]}))


CASES = {
    "idle_context": (
        on_another_device(peak_reserved_bytes=3 * GIB),
        ["no tensor: 512 MiB", "its tensors are on cuda:1", "up to 3.0 GiB reserved here", "set_device(local_rank)"],
        {
            "its tensors are here": on_another_device(live_mib=100),
            "it works nowhere": story(moment(used_mib=512)),
            "NVML does not list it": on_another_device(used_mib=None),
        },
    ),
    "visitors": (
        visited(500, 520, 500, 510, 500, 500, 500),
        ["7 processes that work on other devices have a CUDA context here, too: 3.4 GiB", "Each holds 500 MiB to 520",
         "PID 100, 101, 102 and 4 more", "8 ranks", "map_location"],
        {"a single one on a large device": visited(500), "nobody": visited()},
    ),
    "nccl": (
        collective(30_000, 50_000, 120),
        ["120 MiB is free on the device, and PyTorch's cache has 48.8 GiB", "allocated 29.3 GiB", "empty_cache()",
         "Failed to CUDA calloc"],
        {
            "there is room": collective(30_000, 40_000, 5_000),
            "the cache is small": collective(80_000, 500, 120),
            "no process group": collective(30_000, 50_000, 120, ""),
            "gloo": collective(30_000, 50_000, 120, "gloo"),
        },
    ),
    "pinned_rounding": (
        pinned(20_890, 1024, held_mib=33_792),
        ["takes 33.0 GiB for 21.4 GiB", "adds 11.6 GiB to 2 tensors: offloaded[0] takes 32.0 GiB for 20.4 GiB",
         "pinned_max_round_threshold_mb"],
        {
            "sizes that are powers of two": pinned(16_384, 1024),
            "little": pinned(600),
            "pageable": pinned(20_890, is_pinned=False),
            "registered by the program": pinned(20_890, held_mib=0),
        },
    ),
    "unmapped": (
        asleep(60_000, used_mib=2_000),
        ["56.7 GiB of the memory", "58.6 GiB of it in private pools", "NVML shows 2.0 GiB", "vLLM's sleep mode"],
        {
            "awake": asleep(60_000, used_mib=61_000),
            "no pool": asleep(10, used_mib=2_000, live_mib=60_000),
            "read at another moment": asleep(60_000, used_mib=59_900),
            "NVML does not list it": asleep(60_000, used_mib=None),
        },
    ),
}  # fmt: skip
