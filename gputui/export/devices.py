"""Metrics of devices: GPUs, and MIG instances in families of their own, so that no sum counts a GPU twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from gputui.export.families import Family, Kind, Labels, Sample, present
from gputui.model.machine.device import Device, DeviceLook
from gputui.model.machine.process import ProcessLook
from gputui.model.reading import Absent, Reading, value_of

Value = Callable[[Device], Reading[float]]
_NOT_REPORTED = Absent("not reported by the driver")

DEVICE_INFO = Family("device", "A GPU; it stays here while it does not answer.", Kind.INFO)
LOST = Family("device_lost", "1 where a GPU that was seen since the exporter began does not answer, 0 where it does.")
UNATTRIBUTED = Family("device_memory_unattributed_bytes", "Memory in use that no visible process accounts for.")
PROCESSES = Family("device_processes", "Processes that the driver lists on a GPU, those on its MIG instances included.")
LIMITED = Family("device_clocks_limited", "Whether a reason keeps the clocks below their maximum now.")
MIG_INFO = Family("mig", "A MIG instance; UUID and gpu are those of the GPU that it is a part of.", Kind.INFO)

REASONS = {
    "hw_thermal_slowdown": "hw_thermal",
    "hw_power_brake_slowdown": "hw_power_brake",
    "hw_slowdown": "hw_slowdown",
    "sw_thermal_slowdown": "sw_thermal",
    "sw_power_cap": "sw_power_cap",
    "sync_boost": "sync_boost",
}
"""The label of each of NVML's reasons for lower clocks, without idleness and the limits that a user has set."""


def _part(field: str, part: str, times: float = 1) -> Value:
    """A part of a reading, absent where the driver does not report this part."""

    def value(device: Device) -> Reading[float]:
        whole = getattr(device, field)
        number = None if isinstance(whole, Absent) else getattr(whole, part)
        return _NOT_REPORTED if number is None else number * times

    return value


def _reading(field: str, times: float = 1) -> Value:
    def value(device: Device) -> Reading[float]:
        number = getattr(device, field)
        return number if isinstance(number, Absent) else number * times

    return value


def _share(field: str) -> Value:
    def value(device: Device) -> Reading[float]:
        percent = getattr(device, field)
        return percent if isinstance(percent, Absent) else percent / 100

    return value


def _margin(device: Device) -> Reading[float]:
    now, limit = value_of(device.temperature_c), value_of(device.slowdown_temperature_c)
    return _NOT_REPORTED if now is None or limit is None else limit - now


class Row(NamedTuple):
    """A metric with one sample for each device, and how its value is read."""

    family: Family
    value: Value


_USED, _CAPACITY = _part("memory", "used_bytes"), _part("memory", "total_bytes")
_MHZ = 1e6
_RESERVED = "Memory that the driver keeps for itself; a part of used with drivers that do not tell them apart."

GPU_ROWS = (
    Row(Family("device_memory_capacity_bytes", "Memory of the GPU."), _CAPACITY),
    Row(Family("device_memory_used_bytes", "Memory in use, as the driver counts it."), _USED),
    Row(Family("device_memory_driver_reserved_bytes", _RESERVED), _part("memory", "driver_reserved_bytes")),
    Row(Family("device_busy_ratio", "Share of the time in which a kernel ran."), _share("gpu_utilization_percent")),
    Row(Family("device_sm_active_ratio", "Share of SMs with a warp, since the last scrape."),
        _share("sm_active_percent")),
    Row(Family("device_sm_occupancy_ratio", "Warps on the SMs, of those that fit, since the last scrape."),
        _share("sm_occupancy_percent")),
    Row(Family("device_tensor_active_ratio", "Share of the time of the tensor cores, since the last scrape."),
        _share("tensor_percent")),
    Row(Family("device_dram_active_ratio", "Share of the memory's time, since the last scrape."),
        _share("dram_percent")),
    Row(Family("device_power_watts", "Power."), _reading("power_w")),
    Row(Family("device_power_limit_watts", "Power limit in force."), _reading("power_limit_w")),
    Row(Family("device_energy_joules", "Energy since the driver was loaded.", Kind.COUNTER), _reading("energy_j")),
    Row(Family("device_temperature_celsius", "Temperature of the GPU."), _reading("temperature_c")),
    Row(Family("device_memory_temperature_celsius", "Temperature of its memory."), _reading("memory_temperature_c")),
    Row(Family("device_temperature_slowdown_margin_celsius", "How much warmer it may get before it slows down."),
        _margin),
    Row(Family("device_sm_clock_hertz", "Clock of the SMs."), _reading("sm_clock_mhz", _MHZ)),
    Row(Family("device_sm_clock_max_hertz", "Highest clock of the SMs."), _reading("max_sm_clock_mhz", _MHZ)),
    Row(Family("device_pcie_received_bytes_per_second", "Rate over PCIe to the GPU, where the GPU counts it itself."),
        _reading("pcie_rx_bytes_per_s")),
    Row(Family("device_pcie_sent_bytes_per_second", "Rate over PCIe from the GPU, where the GPU counts it itself."),
        _reading("pcie_tx_bytes_per_s")),
    Row(Family("device_pcie_link_generation", "Generation of the PCIe link now."), _part("pcie", "generation")),
    Row(Family("device_pcie_link_generation_max", "Highest generation of the link."), _part("pcie", "max_generation")),
    Row(Family("device_pcie_link_width", "Lanes of the PCIe link now."), _part("pcie", "width")),
    Row(Family("device_pcie_link_width_max", "Most lanes of the link."), _part("pcie", "max_width")),
    Row(Family("device_ecc_uncorrected_errors", "Uncorrected memory errors since the driver was loaded.", Kind.COUNTER),
        _reading("ecc_uncorrected")),
    Row(Family("device_row_remap_pending", "1 where a reset of the GPU has to replace memory rows."),
        _part("remapped_rows", "pending")),
    Row(Family("device_row_remap_failed", "1 where no spare memory row was left."), _part("remapped_rows", "failed")),
)  # fmt: skip

MIG_ROWS = (
    Row(Family("mig_memory_capacity_bytes", "Memory of the instance."), _CAPACITY),
    Row(Family("mig_memory_used_bytes", "Memory in use on the instance."), _USED),
    Row(Family("mig_sm_active_ratio", "As of a GPU, of the instance's SMs."), _share("sm_active_percent")),
    Row(Family("mig_tensor_active_ratio", "As of a GPU, of the instance."), _share("tensor_percent")),
    Row(Family("mig_dram_active_ratio", "As of a GPU, of the instance."), _share("dram_percent")),
)

OF_PROCESSES = (UNATTRIBUTED,)
"""The families that need the list of processes."""
FAMILIES = (
    *(DEVICE_INFO, LOST, *(row.family for row in GPU_ROWS), LIMITED, PROCESSES, *OF_PROCESSES),
    *(MIG_INFO, *(row.family for row in MIG_ROWS)),
)


def device_labels(look: DeviceLook) -> dict[str, Labels]:
    """The labels of each device, by its key; a MIG instance has those of its GPU and its own GPU_I_ID."""
    gpus = {device.index: present(UUID=device.uuid, gpu=device.index) for device in look.devices if device.mig is None}
    return {
        device.key: gpus.get(device.mig.parent, {}) | present(GPU_I_ID=device.mig.gpu_instance)
        if device.mig
        else gpus[device.index]
        for device in look.devices
    }


def info_of(device: Device, driver: Reading[str]) -> Sample:
    """The sample that has a GPU's texts as labels."""
    texts = present(
        UUID=device.uuid, gpu=device.index, pci_bus_id=device.bus_id, model_name=device.name,
        driver_version=value_of(driver),
    )  # fmt: skip
    return Sample(DEVICE_INFO, texts)


def device_samples(look: DeviceLook, labels: Mapping[str, Labels]) -> Iterator[Sample]:
    """The samples that follow from one look alone; `collector` adds those that depend on earlier looks."""
    for device in look.devices:
        of = labels[device.key]
        if device.mig:
            profile = device.name.rpartition("MIG ")[2]
            yield Sample(MIG_INFO, {**of, **present(GPU_I_PROFILE=profile, mig_uuid=device.uuid)})
        elif device.lost is None:
            yield from _limits(device, of)
            if device.unlisted is None:
                yield Sample(PROCESSES, of, _processes_on(look, device, labels))
        for family, value in MIG_ROWS if device.mig else GPU_ROWS:
            number = value_of(value(device))
            if number is not None and device.lost is None:
                yield Sample(family, of, number)


def unattributed_samples(look: DeviceLook, processes: ProcessLook, labels: Mapping[str, Labels]) -> Iterator[Sample]:
    """Unattributed memory of each GPU: 0 where processes hold all that is used, and no sample where that is unknown."""
    parts = {part.device: part.used_bytes for part in processes.unattributed}
    for device in look.devices:
        is_known = device.unlisted is None and device.lost is None and not isinstance(device.memory, Absent)
        if device.mig is None and is_known:
            yield Sample(UNATTRIBUTED, labels[device.key], parts.get(device.key, 0))


def _limits(device: Device, labels: Labels) -> Iterator[Sample]:
    reasons = value_of(device.throttle_reasons)
    if reasons is not None:
        for reason, label in REASONS.items():
            yield Sample(LIMITED, {**labels, "reason": label}, reason in reasons)


def _processes_on(look: DeviceLook, gpu: Device, labels: Mapping[str, Labels]) -> int:
    uuid = labels[gpu.key]
    on_it = {key for key, of in labels.items() if uuid.items() <= of.items()}
    pids = [use.pid for use in look.uses if use.device in on_it]
    return pids.count(0) + len({*pids} - {0})  # PID 0 is each process in another container
