"""Readings of a node as large as wanted, with every metric on the page."""

from __future__ import annotations

from gputui.export.sources import Readings
from gputui.model.attached.allocator import AllocatorStatistics
from gputui.model.attached.target import Greeting, TorchDevice
from gputui.model.machine.device import (
    Device,
    DeviceLook,
    DeviceMemory,
    DeviceUse,
    Driver,
    MigPlace,
    PcieLink,
    RemappedRows,
)
from gputui.model.machine.owner import Owner
from gputui.model.machine.process import Identity, Process, ProcessLook, ProcessState, Rank
from gputui.sources.probe.told import ProbeInfo
from gputui.units import GIB, MIB

FIRST_PID = 4_000_000


def cluster_node(gpus: int, ranks: int, *, mig: bool = False) -> Readings:
    """A node with `gpus` devices and `ranks` processes with a probe, dealt out to them."""
    devices = [_device(index) for index in range(gpus)]
    if mig:
        place = MigPlace(gpus - 1, 1, 0)
        name = f"{devices[-1].name} MIG 1g.10gb"
        devices.append(devices[-1]._replace(index=gpus, uuid="MIG-0", name=name, mig=place))
    uses = [DeviceUse(devices[n % gpus].key, FIRST_PID + n, "C", 9 * GIB + n * MIB, 90) for n in range(ranks)]
    look = DeviceLook(Driver("580.159.04", "13.0"), tuple(devices), tuple(uses))
    processes = tuple(_process(n, ranks) for n in range(ranks))
    return Readings(look, ProcessLook(processes), tuple(_probe(n, devices[n % gpus], ranks) for n in range(ranks)))


def _device(index: int) -> Device:
    return Device(
        index,
        f"GPU-{index:08x}-1234-5678-9abc-def012345678",
        "NVIDIA H100 80GB HBM3",
        f"00000000:{index + 15:02X}:00.0",
        memory=DeviceMemory(80 * GIB, 40 * GIB, 39 * GIB, 1 * GIB),
        gpu_utilization_percent=97,
        sm_active_percent=81.25,
        sm_occupancy_percent=31.5,
        tensor_percent=38.125,
        dram_percent=41.0,
        temperature_c=61,
        memory_temperature_c=70,
        slowdown_temperature_c=89,
        power_w=512.34,
        power_limit_w=700.0,
        energy_j=123456789.5,
        sm_clock_mhz=1755,
        max_sm_clock_mhz=1980,
        throttle_reasons=("sw_power_cap",),
        pcie=PcieLink(5, 16, 5, 16),
        pcie_tx_bytes_per_s=1_400_000_000,
        pcie_rx_bytes_per_s=2_100_000_000,
        ecc_uncorrected=0,
        remapped_rows=RemappedRows(0, 0, pending=False, failed=False),
    )


def _process(number: int, ranks: int) -> Process:
    return Process(
        Identity(FIRST_PID + number, 1.7e9 + number),
        ProcessState.RUNNING,
        user="ana",
        command="python train.py --config large.yaml",
        rank=Rank(number, ranks, number, None),
        owner=Owner(job="4711", step="0"),
    )


def _probe(number: int, device: Device, ranks: int) -> ProbeInfo:
    pid, reserved = FIRST_PID + number, 8 * GIB + number * MIB
    greeting = Greeting(
        pid, "python train.py", "3.12.3", "2.11.0", number, ranks, is_cuda_initialized=True,
        devices=(TorchDevice(0, device.uuid),),
    )  # fmt: skip
    counters = AllocatorStatistics(
        device=0,
        requested_bytes=reserved - 2 * GIB,
        allocated_bytes=reserved - GIB,
        active_bytes=reserved - GIB,
        reserved_bytes=reserved,
        inactive_split_bytes=MIB,
        peak_allocated_bytes=reserved - GIB // 2,
        peak_active_bytes=reserved - GIB // 2,
        peak_reserved_bytes=reserved,
        segments=100,
        blocks=900,
        num_alloc_retries=0,
        num_ooms=0,
        num_device_alloc=120,
        num_device_free=3,
        generation=123_456_789,
    )
    return ProbeInfo(pid, "ana", greeting, (counters,))
