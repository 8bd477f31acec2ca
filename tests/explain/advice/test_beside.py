"""What the rules about contexts, NCCL and expandable segments leave out, and say beside their advice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputui.explain.advice import findings
from gputui.explain.advice.allocator.expandable import CONTRAINDICATIONS, caution, setting
from gputui.explain.memory.drivers import driver_facts
from gputui.model.attached.analysis import Visitor
from gputui.model.attached.target import Greeting, TorchDevice
from gputui.model.machine.device import Device, DeviceLook, DeviceMemory, DeviceUse, Driver
from gputui.model.reading import Absent
from gputui.protocol.libraries import LIBRARIES
from gputui.units import GIB, MIB
from tests.explain.beside import collective, pinned, visited
from tests.explain.maps import segment
from tests.explain.moments import GREETING, Tensor, moment, row, story

RANKS = {0: 100, 1: 101, 2: 102}


def uses(*rows: tuple[int, int, int | None]) -> DeviceLook:
    """NVML's list as (device, PID, MiB) on three GPUs of 80 GiB."""
    gpus = tuple(Device(n, f"GPU-{n}", "H100", "", memory=DeviceMemory(80 * GIB, GIB, 0, 0)) for n in range(3))
    listed = tuple(
        DeviceUse(gpus[device].key, pid, "C", Absent("no permission") if mib is None else mib * MIB)
        for device, pid, mib in rows
    )
    return DeviceLook(Driver("580.95.05", "13.0"), gpus, uses=listed)


def visitors_of(look: DeviceLook, pid: int = 100) -> tuple[Visitor, ...]:
    greeting = Greeting(pid, "", "", "", None, None, is_cuda_initialized=True, devices=(TorchDevice(0, "GPU-0"),))
    return driver_facts(greeting, look, pid)[0].visitors


def test_ranks_of_other_devices_are_told_from_processes_that_work_here():
    own = [(0, 100, 30_000), (1, 101, 30_000), (2, 102, 30_000)]
    contexts = [(0, 101, 500), (0, 102, 520)]
    assert visitors_of(uses(*own)) == ()
    assert visitors_of(uses(*own, *contexts)) == (
        Visitor(102, 520 * MIB, 30_000 * MIB),
        Visitor(101, 500 * MIB, 30_000 * MIB),
    )
    others = [(0, 103, 500), (0, 104, 20_000), (1, 104, 30_000), (0, 105, None)]  # small, large, unknown
    assert visitors_of(uses(*own, *others)) == ()
    assert visitors_of(uses(*own, *contexts), pid=1) == ()  # in a container, where NVML has other PIDs


def test_contexts_of_other_ranks_are_not_counted_as_other_processes_again():
    assert "others" not in visited(*[500] * 7).findings()
    assert "others" in visited(*[500] * 7, others_mib=9000).findings()


def test_the_cache_that_nccl_needs_is_one_finding():
    assert "release" not in collective(30_000, 50_000, 120).findings()


def test_pinned_memory_of_the_process_is_a_finding_of_its_first_device_only():
    (now,) = pinned(20_890).moments
    second = replace(now.devices[0], index=1, statistics=replace(now.devices[0].statistics, device=1))
    both = replace(now, devices=(*now.devices, second))
    kinds = [{finding.kind for finding in findings(both, device)} for device in (0, 1)]
    assert ["pinned_rounding" in some for some in kinds] == [True, False]


@pytest.mark.parametrize(
    ("torch", "libraries", "words"),
    [
        ("2.4.1", (), "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
        ("2.9.0+cu128", (), "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
        ("2.10.0", (), "PYTORCH_ALLOC_CONF=expandable_segments:True"),
        ("2.11.0+cu130", ("vllm.device_allocator.cumem",), "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
        ("", (), "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
        ("a fork", (), "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
    ],
)
def test_the_setting_is_written_as_the_program_reads_it(torch, libraries, words):
    assert setting(replace(GREETING, torch=torch, libraries=libraries)) == words


def test_what_speaks_against_expandable_segments_stands_beside_the_advice():
    free = [row(Tensor(4, f"kept[{n}]"), free=124, address=(n + 1) << 40) for n in range(4)]
    now = moment(*free)
    assert "processes share CUDA tensors" in story(now).findings()["scattered"].remedy
    with_nixl = replace(now, greeting=replace(now.greeting, libraries=("nixl", "ucxx", "ucp")))
    remedy = story(with_nixl).findings()["scattered"].remedy
    assert "But in this program NIXL registers GPU memory" in remedy
    assert remedy.count("UCX") == 1
    assert "{" not in story(moment(segment(("live", 8), ("free", 200)))).findings()["stuck"].remedy


def test_every_library_that_the_probe_looks_for_has_a_reason():
    assert {one.module for one in CONTRAINDICATIONS} == set(LIBRARIES)
    assert all(caution(replace(GREETING, libraries=(name,))).endswith(".") for name in LIBRARIES)
