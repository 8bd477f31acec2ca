"""A device as NVML describes it: a whole GPU or a MIG instance. Field names are NVML's terms with their units."""

from __future__ import annotations

from typing import NamedTuple

from gputui.model.reading import NOT_LOOKED_AT, NOT_READ, Absent, Reading
from gputui.units import GIB

CONTEXT_BYTES = GIB
"""The most that a CUDA context and the handles of its libraries take: a process that holds more has data there."""


class DeviceMemory(NamedTuple):
    """The device's memory in NVML's v2 split: used + free + driver_reserved = total.

    With a driver that knows only v1, `driver_reserved_bytes` is None and contained in `used_bytes`.
    """

    total_bytes: int
    used_bytes: int
    free_bytes: int
    driver_reserved_bytes: int | None


class MigPlace(NamedTuple):
    """A MIG instance's parent device (by index) and instance numbers."""

    parent: int
    gpu_instance: int
    compute_instance: int


class Throttled(NamedTuple):
    """In what share of the time between two readings the clocks were lowered to save power, and because of heat."""

    power_percent: float
    thermal_percent: float


class PcieLink(NamedTuple):
    """The PCIe link's generation and width, current and maximum."""

    generation: int
    width: int
    max_generation: int
    max_width: int


class Bar1(NamedTuple):
    """The window through which the host accesses device memory."""

    total_bytes: int
    used_bytes: int


class RemappedRows(NamedTuple):
    """Rows of memory that were replaced after errors; `pending`: some need a reset, `failed`: no spare row was left."""

    correctable: int
    uncorrectable: int
    pending: bool
    failed: bool


class MigMode(NamedTuple):
    """Whether MIG is enabled now, and whether it will be after the GPU's next reset."""

    is_enabled: bool
    is_enabled_after_reset: bool


class NvLinks(NamedTuple):
    """A device's NVLinks: how many are active, how many there are, and the sum of their rates, None if not known."""

    active: int
    total: int
    tx_bytes_per_s: float | None
    rx_bytes_per_s: float | None


class Lost(NamedTuple):
    """Why a device does not answer; where there is little room, `reason` is shown without `remedy`."""

    reason: str
    remedy: str = ""

    @property
    def sentence(self) -> str:
        """Reason and remedy: "GPU is no longer on the bus: check its seating and power, and reboot."."""
        return f"{self.reason}: {self.remedy}" if self.remedy else f"{self.reason}."


class Xid(NamedTuple):
    """An XID error that the driver reported; `device` is a `Device.key`, `time` when gputui read it (epoch seconds)."""

    device: str
    number: int
    time: float


class Device(NamedTuple):
    """A GPU or a MIG instance: one row of the monitor. Every reading is a value, or absent with its reason.

    `problems` are sentences about this device alone. `lost` is why the device does not answer at all.
    `shares_host_memory` marks boards without memory of their own (NVML: MemoryInfo not supported). `unlisted` is why
    the list of its processes may be incomplete, None where NVML has listed them all.
    """

    index: int  # type: ignore[assignment]  # in place of a method of tuples
    uuid: str
    name: str
    bus_id: str
    mig: MigPlace | None = None
    lost: Lost | None = None
    shares_host_memory: bool = False
    memory: Reading[DeviceMemory] = NOT_READ
    gpu_utilization_percent: Reading[int] = NOT_READ
    memory_utilization_percent: Reading[int] = NOT_READ
    sm_active_percent: Reading[float] = NOT_READ
    sm_occupancy_percent: Reading[float] = NOT_READ
    tensor_percent: Reading[float] = NOT_READ
    dram_percent: Reading[float] = NOT_READ
    fp64_percent: Reading[float] = NOT_READ
    fp32_percent: Reading[float] = NOT_READ
    fp16_percent: Reading[float] = NOT_READ
    integer_percent: Reading[float] = NOT_READ
    profile_source: Reading[str] = NOT_READ
    encoder_percent: Reading[int] = NOT_READ
    decoder_percent: Reading[int] = NOT_READ
    temperature_c: Reading[int] = NOT_READ
    memory_temperature_c: Reading[int] = NOT_READ
    slowdown_temperature_c: Reading[int] = NOT_READ
    shutdown_temperature_c: Reading[int] = NOT_READ
    fan_percent: Reading[int] = NOT_READ
    power_w: Reading[float] = NOT_READ
    power_limit_w: Reading[float] = NOT_READ
    energy_j: Reading[float] = NOT_READ
    sm_clock_mhz: Reading[int] = NOT_READ
    memory_clock_mhz: Reading[int] = NOT_READ
    max_sm_clock_mhz: Reading[int] = NOT_READ
    max_memory_clock_mhz: Reading[int] = NOT_READ
    pstate: Reading[str] = NOT_READ
    throttle_reasons: Reading[tuple[str, ...]] = NOT_READ
    throttled: Reading[Throttled] = NOT_READ
    pcie: Reading[PcieLink] = NOT_READ
    pcie_tx_bytes_per_s: Reading[int] = NOT_LOOKED_AT
    pcie_rx_bytes_per_s: Reading[int] = NOT_LOOKED_AT
    nvlinks: Reading[NvLinks] = NOT_READ
    bar1: Reading[Bar1] = NOT_READ
    ecc_uncorrected: Reading[int] = NOT_READ
    ecc_corrected: Reading[int] = NOT_READ
    remapped_rows: Reading[RemappedRows] = NOT_READ
    retired_pages: Reading[int] = NOT_READ
    recovery_action: Reading[str] = NOT_READ
    persistence_mode: Reading[bool] = NOT_READ
    compute_mode: Reading[str] = NOT_READ
    display_active: Reading[bool] = NOT_READ
    mig_mode: Reading[MigMode] = NOT_READ
    vbios: Reading[str] = NOT_READ
    serial: Reading[str] = NOT_READ
    architecture: Reading[str] = NOT_READ
    compute_capability: Reading[str] = NOT_READ
    problems: tuple[str, ...] = ()
    unlisted: Absent | None = None

    @property
    def key(self) -> str:
        """What identifies this device between snapshots, also while it is lost and its UUID cannot be read."""
        return self.uuid or f"index {self.index}"

    @property
    def label(self) -> str:
        """The number that users see: "3", and "3.1" for GPU instance 1 of device 3."""
        return f"{self.mig.parent}.{self.mig.gpu_instance}" if self.mig else str(self.index)


class DeviceUse(NamedTuple):
    """What NVML says one process does on one device: `kind` is "C", "G", "M" (MPS) or a sum such as "C+G"."""

    device: str
    """`Device.key` of the device."""
    pid: int
    kind: str
    used_bytes: Reading[int]
    sm_percent: Reading[int] = NOT_READ


class Driver(NamedTuple):
    """The driver's versions."""

    version: Reading[str] = NOT_READ
    cuda_version: Reading[str] = NOT_READ


class DeviceLook(NamedTuple):
    """All devices at one time: what the NVML source returns.

    `problem` says why NVML as a whole could not be read, with the remedy; there are no devices then. `xids` are the
    newest errors, the oldest first.
    """

    driver: Driver = Driver()
    devices: tuple[Device, ...] = ()
    uses: tuple[DeviceUse, ...] = ()
    problem: str | None = None
    xids: tuple[Xid, ...] = ()


THROTTLE_SENTENCES = {
    "gpu_idle": "Nothing is running on the GPU, so its clocks are lowered.",
    "applications_clocks_setting": "The clocks are held at the application clocks that were set.",
    "sw_power_cap": "The driver lowers the clocks to stay within the power limit.",
    "hw_slowdown": "The hardware has cut the clocks by half or more: too hot, a power brake, or a power supply fault.",
    "sync_boost": "The GPU is in a sync boost group and waits for its slowest member.",
    "sw_thermal_slowdown": "The driver lowers the clocks because the GPU or its memory is too hot.",
    "hw_thermal_slowdown": "The hardware has cut the clocks by half or more because the GPU is too hot.",
    "hw_power_brake_slowdown": "The hardware has cut the clocks by half or more on a signal of the power supply.",
    "display_clock_setting": "The clocks are limited by the display's settings.",
}
"""Why a device's clocks are below their maximum, a sentence for each of NVML's clocks event reasons.

The keys are part of `gputui --once --json`: do not rename them.
"""
