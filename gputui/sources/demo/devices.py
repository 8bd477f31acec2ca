"""The demonstration's devices, whose readings follow from the load as on a real board."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gputui.model.machine.device import (
    Bar1,
    Device,
    DeviceLook,
    DeviceMemory,
    DeviceUse,
    Driver,
    MigMode,
    MigPlace,
    NvLinks,
    PcieLink,
    RemappedRows,
    Throttled,
)
from gputui.model.reading import Absent, AbsentKind, Reading
from gputui.sources.demo.curves import Curve, noise
from gputui.sources.demo.scenario import HIDDEN_GIB, Job
from gputui.units import GIB, MIB

_TOTAL_BYTES = 81559 * MIB
_RESERVED_BYTES = 551 * MIB
_IDLE_W = 71.0
_LIMIT_W = 700.0
_MAX_SM_MHZ = 1980
_MEMORY_MHZ = 2619
_IDLE_SM_MHZ = 345

_HUNGRY = 2
"""The device whose work needs more power than the limit allows."""
_CAPPED_PERCENT = 31.0
"""The share of the time in which that device's clocks are lowered."""

_MIG_PARENT = 7
_INSTANCES = (
    # gpu_instance, name, memory, driver's part
    (1, "3g.40gb", 40448 * MIB, 44 * MIB),
    (5, "2g.20gb", 20096 * MIB, 24 * MIB),
    (13, "1g.10gb", 9984 * MIB, 12 * MIB),
)

_OF_PARENT = Absent("read on the GPU, not on its MIG instances", AbsentKind.NOT_SUPPORTED)
_NOT_WITH_MIG = Absent("not supported while MIG is enabled", AbsentKind.NOT_SUPPORTED)
_NO_FAN = Absent("not supported by this device", AbsentKind.NOT_SUPPORTED)


def look(time_s: float, jobs: Sequence[Job]) -> DeviceLook:
    """All devices at a moment, and what each job uses on its device."""
    boards = [_board(index, time_s, [job for job in jobs if _board_of(job) == index]) for index in range(8)]
    instances = [_instance(place, time_s, jobs) for place in range(len(_INSTANCES))]
    return DeviceLook(
        driver=Driver(version="580.95.05", cuda_version="13.0"),
        devices=(*boards, *instances),
        uses=tuple(_use(job, time_s) for job in jobs),
    )


def _board_of(job: Job) -> int:
    return int(job.device.split("-")[1])


def _use(job: Job, time_s: float) -> DeviceUse:
    is_instance = job.device.startswith("MIG")
    sm: Reading[int] = _NOT_WITH_MIG if is_instance else round(100 * job.load(time_s))
    return DeviceUse(job.device, job.pid, "C", used_bytes=int(job.memory_gib(time_s) * 1024) * MIB, sm_percent=sm)


def _held_bytes(device: str, time_s: float, jobs: Sequence[Job]) -> int:
    hidden = int(HIDDEN_GIB.get(device, 0) * 1024) * MIB
    return hidden + sum(int(job.memory_gib(time_s) * 1024) * MIB for job in jobs if job.device == device)


def _load(jobs: Sequence[Job]) -> Curve:
    return lambda time_s: min(1.0, sum(job.load(time_s) for job in jobs))


def _wanted_power_w(index: int, load: float) -> float:
    """The power that the work would draw without a limit."""
    return _IDLE_W + 3.0 * index % 7 + (690.0 if index == _HUNGRY else 585.0) * math.pow(load, 0.8)


def _temperature_c(index: int, time_s: float, load: Curve) -> int:
    """The temperature follows the power of the last minute, because a heat sink reacts slowly."""
    ages_s = (0, 5, 10, 20, 30, 45, 60)
    powers = [min(_LIMIT_W, _wanted_power_w(index, load(time_s - age))) for age in ages_s]
    return round(25 + (index * 5) % 7 + 0.056 * sum(powers) / len(powers))


def _board(index: int, time_s: float, jobs: Sequence[Job]) -> Device:
    load = _load(jobs)
    busy, wander = load(time_s), noise(f"board {index}")(time_s)
    wanted_w = _wanted_power_w(index, busy)
    power_w = min(_LIMIT_W - 0.4 + 0.3 * wander, wanted_w + 4 * wander)
    is_capped, is_idle, has_mig = wanted_w > _LIMIT_W, busy < 0.01, index == _MIG_PARENT
    temperature = _temperature_c(index, time_s, load)
    used = _held_bytes(f"GPU-{index}", time_s, jobs) + 3 * MIB
    if has_mig:
        used += sum(_instance_memory(place, time_s, jobs).used_bytes for place in range(len(_INSTANCES)))
    return Device(
        index=index,
        uuid=f"GPU-{index}",
        name="NVIDIA H100 80GB HBM3",
        bus_id=f"00000000:{0x1B + 0x16 * index:02X}:00.0",
        memory=DeviceMemory(_TOTAL_BYTES, used, _TOTAL_BYTES - _RESERVED_BYTES - used, _RESERVED_BYTES),
        gpu_utilization_percent=_NOT_WITH_MIG if has_mig else round(100 * busy),
        memory_utilization_percent=_NOT_WITH_MIG if has_mig else round(58 * busy),
        **_profile(busy),
        encoder_percent=_NOT_WITH_MIG if has_mig else 0,
        decoder_percent=_NOT_WITH_MIG if has_mig else 0,
        temperature_c=temperature,
        memory_temperature_c=temperature + 11,
        slowdown_temperature_c=89,
        shutdown_temperature_c=92,
        fan_percent=_NO_FAN,
        power_w=round(power_w, 1),
        power_limit_w=_LIMIT_W,
        energy_j=float(round(3.1e9 + 4.7e8 * index + 380 * time_s)),
        sm_clock_mhz=_sm_clock_mhz(wanted_w, wander, is_idle=is_idle),
        memory_clock_mhz=_MEMORY_MHZ,
        max_sm_clock_mhz=_MAX_SM_MHZ,
        max_memory_clock_mhz=_MEMORY_MHZ,
        pstate="P0",
        throttle_reasons=("sw_power_cap",) if is_capped else ("gpu_idle",) if is_idle else (),
        throttled=Throttled(_CAPPED_PERCENT if is_capped else 0.0, 0.0),
        pcie=PcieLink(5, 16, 5, 16),
        pcie_tx_bytes_per_s=int((0.4 + 2.1 * busy + 0.2 * wander) * 100 * MIB),
        pcie_rx_bytes_per_s=int((0.5 + 6.4 * busy + 0.4 * wander) * 100 * MIB),
        nvlinks=_nvlinks(index, busy),
        bar1=Bar1(131072 * MIB, (2 + int(4 * busy)) * MIB),
        ecc_uncorrected=0,
        ecc_corrected=2 if index == 1 else 0,
        remapped_rows=RemappedRows(correctable=1 if index == 1 else 0, uncorrectable=0, pending=False, failed=False),
        retired_pages=Absent("not supported by this device", AbsentKind.NOT_SUPPORTED),
        persistence_mode=True,
        compute_mode="default",
        display_active=False,
        mig_mode=MigMode(is_enabled=has_mig, is_enabled_after_reset=has_mig),
        vbios="96.00.A5.00.01",
        serial=f"16523240{index:05d}",
        architecture="Hopper",
        compute_capability="9.0",
    )


def _profile(busy: float) -> dict[str, Any]:
    """The work of a GPU's units while it trains a transformer in bfloat16, in shares that an H200 had."""
    shares = {
        "sm_active_percent": 91.0,
        "sm_occupancy_percent": 36.0,
        "tensor_percent": 38.5,
        "dram_percent": 44.0,
        "fp64_percent": 0.0,
        "fp32_percent": 4.0,
        "fp16_percent": 0.1,
        "integer_percent": 17.0,
    }
    return {field: round(share * busy, 1) for field, share in shares.items()} | {"profile_source": "gpm"}


def _sm_clock_mhz(wanted_w: float, wander: float, *, is_idle: bool) -> int:
    """The SM clock in steps of 15 MHz, lower the more the power limit throttles."""
    if is_idle:
        return _IDLE_SM_MHZ
    held_back = max(0.0, wanted_w - _LIMIT_W) * 4.5
    return _MAX_SM_MHZ - 15 * round((held_back + 20 * abs(wander)) / 15)


def _nvlinks(index: int, busy: float) -> NvLinks:
    """18 links a board; only the ranks of the distributed job exchange gradients."""
    rate = 62 * GIB * busy if index < 4 else 0.0
    return NvLinks(active=18, total=18, tx_bytes_per_s=rate, rx_bytes_per_s=rate * 0.98)


def _instance_memory(place: int, time_s: float, jobs: Sequence[Job]) -> DeviceMemory:
    gpu_instance, _, total, own = _INSTANCES[place]
    used = own + _held_bytes(f"MIG-{_MIG_PARENT}-{gpu_instance}", time_s, jobs)
    return DeviceMemory(total, used, total - used, 0)


def _instance(place: int, time_s: float, jobs: Sequence[Job]) -> Device:
    gpu_instance, profile, _, _ = _INSTANCES[place]
    uuid = f"MIG-{_MIG_PARENT}-{gpu_instance}"
    return Device(
        index=_MIG_PARENT,
        uuid=uuid,
        name=f"NVIDIA H100 80GB HBM3 MIG {profile}",
        bus_id=f"00000000:{0x1B + 0x16 * _MIG_PARENT:02X}:00.0",
        mig=MigPlace(parent=_MIG_PARENT, gpu_instance=gpu_instance, compute_instance=0),
        memory=_instance_memory(place, time_s, jobs),
        gpu_utilization_percent=_NOT_WITH_MIG,
        memory_utilization_percent=_NOT_WITH_MIG,
        **_profile(_load([job for job in jobs if job.device == uuid])(time_s)),
        encoder_percent=_NOT_WITH_MIG,
        decoder_percent=_NOT_WITH_MIG,
        temperature_c=_OF_PARENT,
        memory_temperature_c=_OF_PARENT,
        fan_percent=_OF_PARENT,
        power_w=_OF_PARENT,
        power_limit_w=_OF_PARENT,
        sm_clock_mhz=_OF_PARENT,
        memory_clock_mhz=_OF_PARENT,
        pstate=_OF_PARENT,
        throttle_reasons=_OF_PARENT,
        throttled=_OF_PARENT,
        pcie=_OF_PARENT,
        nvlinks=_OF_PARENT,
        ecc_uncorrected=0,
        ecc_corrected=0,
        architecture="Hopper",
        compute_capability="9.0",
    )
