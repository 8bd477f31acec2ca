"""NVML's error numbers and the functions that the monitor calls, as tables for the tests of every fault."""

from __future__ import annotations

from collections.abc import Iterator

import pynvml

from gputui.model.machine.device import Device, DeviceLook
from gputui.model.reading import Absent, AbsentKind
from tests.conftest import FakeGpus
from tests.sources.conftest import Looks

GONE = frozenset({1, 9, 12, 18})
"""Errors about NVML as a whole, if more than one call returns them."""
LOST = frozenset({15, 16, 28})
"""Errors about a whole device."""
UNSUPPORTED = frozenset({3, 13, 25, 26})
"""Errors that stay the same while the driver is loaded, so the call is made once."""

REASONS = {
    1: "NVML was shut down",
    2: "not known for this device",
    3: "not supported by this device",
    4: "insufficient permissions",
    5: "Already Initialized (NVML error 5)",
    6: "not found",
    7: "Insufficient Size (NVML error 7)",
    8: "too little power",
    9: "the driver is not loaded",
    10: "the driver did not answer in time",
    11: "an interrupt problem",
    12: "a library of the driver was not found",
    13: "not known to this driver",
    14: "corrupted infoROM",
    15: "GPU is lost",
    16: "GPU needs a reset",
    17: "blocked by the operating system",
    18: "driver and library differ in version",
    19: "in use by another program",
    20: "the driver is out of memory",
    21: "no data",
    22: "Unknown Error (NVML error 22)",
    23: "the driver is out of resources",
    24: "Unknown Error (NVML error 24)",
    25: "not known to this driver",
    26: "no longer supported by this driver",
    27: "not ready yet",
    28: "GPU is not on the bus",
    29: "not possible in the device's state",
    30: "Unknown Error (NVML error 30)",
    77: "Unknown Error (NVML error 77)",
    999: "unknown error in the driver",
}
"""The reason that a reading shows for each of NVML's errors, and for an unknown one (77)."""

NAMED = {number for name, number in vars(pynvml).items() if name.startswith("NVML_ERROR_")}
"""The error numbers that nvidia-ml-py has a name for."""

FIELDS = {
    "nvmlDeviceGetArchitecture": ("architecture",),
    "nvmlDeviceGetBAR1MemoryInfo": ("bar1",),
    "nvmlDeviceGetClockInfo": ("sm_clock_mhz", "memory_clock_mhz"),
    "nvmlDeviceGetComputeMode": ("compute_mode",),
    "nvmlDeviceGetCudaComputeCapability": ("compute_capability",),
    "nvmlDeviceGetCurrPcieLinkGeneration": ("pcie",),
    "nvmlDeviceGetCurrPcieLinkWidth": ("pcie",),
    "nvmlDeviceGetCurrentClocksEventReasons": ("throttle_reasons",),
    "nvmlDeviceGetDecoderUtilization": ("decoder_percent",),
    "nvmlDeviceGetDisplayActive": ("display_active",),
    "nvmlDeviceGetEncoderUtilization": ("encoder_percent",),
    "nvmlDeviceGetEnforcedPowerLimit": ("power_limit_w",),
    "nvmlDeviceGetFanSpeed": ("fan_percent",),
    "nvmlDeviceGetFieldValues": ("memory_temperature_c", "energy_j", "recovery_action"),
    "nvmlDeviceGetMaxClockInfo": ("max_sm_clock_mhz", "max_memory_clock_mhz"),
    "nvmlDeviceGetMaxPcieLinkGeneration": ("pcie",),
    "nvmlDeviceGetMaxPcieLinkWidth": ("pcie",),
    "nvmlDeviceGetMemoryInfo_v2": ("memory",),
    "nvmlDeviceGetMigMode": ("mig_mode",),
    "nvmlDeviceGetName": ("name",),
    "nvmlDeviceGetPciInfo_v3": ("bus_id",),
    "nvmlDeviceGetPerformanceState": ("pstate",),
    "nvmlDeviceGetPersistenceMode": ("persistence_mode",),
    "nvmlDeviceGetPowerUsage": ("power_w",),
    "nvmlDeviceGetRemappedRows": ("remapped_rows",),
    "nvmlDeviceGetRetiredPages": ("retired_pages",),
    "nvmlDeviceGetSerial": ("serial",),
    "nvmlDeviceGetTemperature": ("temperature_c",),
    "nvmlDeviceGetTemperatureThreshold": ("slowdown_temperature_c", "shutdown_temperature_c"),
    "nvmlDeviceGetTotalEccErrors": ("ecc_corrected", "ecc_uncorrected"),
    "nvmlDeviceGetUUID": ("uuid",),
    "nvmlDeviceGetUtilizationRates": ("gpu_utilization_percent", "memory_utilization_percent"),
    "nvmlDeviceGetVbiosVersion": ("vbios",),
    "nvmlDeviceGetViolationStatus": ("throttled",),
}
"""The calls behind readings, and the fields of `Device` that need them."""

LISTS = {
    "nvmlDeviceGetComputeRunningProcesses_v3": "C",
    "nvmlDeviceGetGraphicsRunningProcesses_v3": "G",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": "M",
}
"""The calls that list processes, and the kind of process they list."""

SM_USE = "nvmlDeviceGetProcessUtilization"
OPEN = "nvmlDeviceGetHandleByIndex_v2"
NVLINK = "nvmlDeviceGetNvLinkState"
PCIE = "nvmlDeviceGetPcieThroughput"
COUNT = "nvmlDeviceGetCount_v2"
INIT, END = "nvmlInitWithFlags", "nvmlShutdown"
DRIVER = {"nvmlSystemGetDriverVersion": "version", "nvmlSystemGetCudaDriverVersion_v2": "cuda_version"}
MIG = (
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetComputeInstanceId",
)
CALLED = {*FIELDS, *LISTS, SM_USE, OPEN, NVLINK, PCIE, COUNT, INIT, END, *DRIVER, *MIG}
"""Every function that the monitor calls while nothing fails."""

OTHERWISE = {
    **{function: function.replace("_v3", "_v2") for function in LISTS},
    "nvmlDeviceGetMemoryInfo_v2": "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetCurrentClocksEventReasons": "nvmlDeviceGetCurrentClocksThrottleReasons",
}
"""The functions that are called instead if the driver does not know the newer one."""

FIRST_LISTS = {function: function.replace("_v3", "") for function in LISTS}
"""The lists of drivers before 450."""
OLD_INIT, OLD_CUDA_VERSION = "nvmlInit_v2", "nvmlSystemGetCudaDriverVersion"

VICTIM = 1
UNKNOWN_YET = {"name": "GPU 1", "uuid": "", "bus_id": ""}
"""The values that replace readings that identify a device."""


def absent(error: int) -> Absent:
    """The reading after a call that failed with this error."""
    return Absent(REASONS[error], AbsentKind.NOT_SUPPORTED if error == 3 else AbsentKind.FAILED)


def each_error(gpus: FakeGpus, function: str, device: int = VICTIM) -> Iterator[tuple[int, Looks]]:
    """A new source for each error that `function` may return, while it returns that error."""
    for error in REASONS:
        gpus.clear("faults", "calls")
        gpus.fault(function, error=error, device=device)
        looks = Looks()
        try:
            yield error, looks
        finally:
            looks.source.close()


def uses_of(look: DeviceLook, device: Device) -> list:
    return [(use.pid, use.kind, use.used_bytes, use.sm_percent) for use in look.uses if use.device == device.key]


def check_victim_is_lost(look: DeviceLook, well: DeviceLook, error: int) -> None:
    """Check that the lost GPU has no measurements, and that the other one is unchanged."""
    first, victim = look.devices
    assert first == well.devices[0], error
    assert victim.lost, error
    assert victim.power_w == victim.memory == victim.gpu_utilization_percent == absent(error), error
    assert uses_of(look, first) == uses_of(well, first), error
    assert uses_of(look, victim) == [], error


def absent_field(error: int) -> Absent:
    """The reading of a field that failed with this error: fields have an error number but no message."""
    return absent(error) if "NVML error" not in REASONS[error] else Absent(f"NVML error {error}")
