"""Processes on devices and MIG instances, and what each of them uses."""

from __future__ import annotations

import os

import pytest

from gputui.model.machine.device import DeviceUse, MigPlace
from gputui.model.reading import Absent, AbsentKind
from gputui.units import MIB
from tests.conftest import FakeGpus
from tests.fakegpu.lab import COMPUTE, GHOST, GRAPHICS, IDLE, MPS, NO_MEMORY
from tests.sources.conftest import Looks

NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 3, 4, 6


@pytest.mark.parametrize(
    ("flags", "kind"),
    [(0, "C"), (GRAPHICS, "G"), (GRAPHICS | COMPUTE, "C+G"), (MPS, "M"), (MPS | COMPUTE, "C+M")],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_process_in_several_lists_is_one_use(fake_gpus: FakeGpus, looks: Looks, flags: int, kind: str) -> None:
    fake_gpus.process(os.getpid(), {0: 4096}, sm=35, flags=flags)
    look = looks.look()
    assert look.uses == (DeviceUse(look.devices[0].key, os.getpid(), kind, 4096 * MIB, 35),)


def test_a_process_on_two_devices_is_two_uses(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.process(os.getpid(), {0: 4096, 1: 512})
    look = looks.look()
    assert [(use.device, use.used_bytes) for use in look.uses] == [
        (look.devices[0].key, 4096 * MIB),
        (look.devices[1].key, 512 * MIB),
    ]


def test_what_a_process_holds_is_of_the_moment_of_what_its_device_uses(fake_gpus: FakeGpus, looks: Looks) -> None:
    own, compute = os.getpid(), "nvmlDeviceGetComputeRunningProcesses_v3"
    for mib in (1024, 1024 + 4096, 1024):
        fake_gpus.process(own, {0: mib})
        assert [use.used_bytes for use in looks.look(after_s=0.1).uses] == [mib * MIB]
    fake_gpus.clear("calls")
    looks.look(after_s=0.1)
    assert compute not in fake_gpus.calls()


def test_process_memory_that_nvml_does_not_report_is_absent(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.ghost(1, device=0, mib=300, flags=NO_MEMORY)
    (use,) = looks.look().uses
    assert use.used_bytes == Absent("NVML does not say how much memory this process holds")


def test_missing_permissions_for_process_lists_are_reported_once_per_device(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.ghost(4, mib=300)
    fake_gpus.fault("nvmlDeviceGetComputeRunningProcesses_v3", device=0, error=NO_PERMISSION)
    fake_gpus.fault("nvmlDeviceGetGraphicsRunningProcesses_v3", device=0, error=NO_PERMISSION)
    look = looks.look()
    assert look.devices[0].problems == ("The processes on this GPU cannot be listed: insufficient permissions.",)
    assert look.devices[1].problems == ()
    assert {use.device for use in look.uses} == {look.devices[1].key}


def test_a_driver_without_mps_lists_is_no_problem(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.fault("nvmlDeviceGetMPSComputeRunningProcesses_v3", error=NOT_SUPPORTED)
    assert looks.look().devices[0].problems == ()


def test_a_process_without_a_sample_is_idle_if_another_has_one(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.ghost(1, device=0, mib=300, pid=4100000)
    fake_gpus.process(os.getpid(), {0: 300}, flags=IDLE)
    uses = {use.pid: use.sm_percent for use in looks.look().uses}
    assert uses[os.getpid()] == 0
    assert uses[4100000] != 0


def test_without_any_sample_utilization_is_unknown(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.process(4100000, {0: 300}, flags=GHOST | IDLE)
    (use,) = looks.look().uses
    assert use.sm_percent == Absent("no sample in the last interval", AbsentKind.NOT_SAMPLED)


def test_a_process_sampled_before_is_idle_without_new_samples(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.process(4100000, {0: 300}, sm=70, flags=GHOST)
    assert looks.look().uses[0].sm_percent == 70
    fake_gpus.process(4100000, {0: 300}, flags=GHOST | IDLE)
    assert looks.look(after_s=2).uses[0].sm_percent == 0


def test_unsupported_sampling_is_requested_once(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.ghost(1, device=0, mib=300)
    fake_gpus.fault("nvmlDeviceGetProcessUtilization", error=NOT_SUPPORTED)
    for _ in range(10):
        look = looks.look()
    assert look.uses[0].sm_percent == Absent("not supported by this device", AbsentKind.NOT_SUPPORTED)
    assert fake_gpus.calls()["nvmlDeviceGetProcessUtilization"] == 1


def test_a_device_without_processes_is_not_sampled(fake_gpus: FakeGpus, looks: Looks) -> None:
    looks.look()
    assert "nvmlDeviceGetProcessUtilization" not in fake_gpus.calls()


def test_mig_instances_are_devices_after_their_parent(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.up(2, mig=3)
    devices = looks.look().devices
    assert [device.index for device in devices] == [0, 1, 2, 3, 4]
    assert [device.mig for device in devices[2:]] == [MigPlace(1, number, 0) for number in (1, 2, 3)]
    assert {device.bus_id for device in devices[1:]} == {"00000000:1F:00.0"}
    assert [device.mig_mode.is_enabled for device in devices[:2]] == [False, True]
    assert devices[2].name == "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    assert devices[2].power_w == Absent(
        "measured for the whole GPU, not for its MIG instances", AbsentKind.NOT_SUPPORTED
    )


def test_mig_instances_have_separate_uses_and_share_the_parents_memory(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.up(1, mig=2)
    fake_gpus.process(4100000, {1: 1000}, flags=GHOST)
    fake_gpus.process(4100001, {2: 2000}, flags=GHOST)
    look = looks.look()
    parent, first, second = look.devices
    assert [(use.device, use.used_bytes) for use in look.uses] == [(first.key, 1000 * MIB), (second.key, 2000 * MIB)]
    assert [device.memory.used_bytes // MIB for device in (parent, first, second)] == [3000, 1000, 2000]


def test_instances_are_asked_if_the_parents_list_needs_permissions(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.up(1, mig=2)
    fake_gpus.process(4100000, {1: 1000}, flags=GHOST)
    fake_gpus.fault("nvmlDeviceGetComputeRunningProcesses_v3", device=0, error=NO_PERMISSION)
    look = looks.look()
    assert [(use.device, use.pid) for use in look.uses] == [(look.devices[1].key, 4100000)]
    assert look.devices[0].problems == ()


def test_added_and_removed_instances_are_followed(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.up(1, mig=2)
    before = looks.look().devices
    assert len(before) == 3
    fake_gpus.set(1, total=0)
    after = looks.look(after_s=5).devices
    assert [device.key for device in after] == [before[0].key, before[2].key]
    assert [device.index for device in after] == [0, 1]


def test_an_instance_that_cannot_be_read_is_a_problem_of_its_parent(fake_gpus: FakeGpus, looks: Looks) -> None:
    fake_gpus.up(1, mig=1)
    fake_gpus.fault("nvmlDeviceGetGpuInstanceId", device=1, error=NO_PERMISSION)
    (parent,) = looks.look().devices
    assert parent.problems == ("MIG instance 0 of this GPU cannot be read: insufficient permissions.",)
