"""NVML's error numbers, and what they mean for one reading, for one device, and for NVML as a whole."""

from __future__ import annotations

from enum import IntEnum

from gputui.errors import GputuiError
from gputui.model.machine.device import Lost
from gputui.model.reading import Absent, AbsentKind


class Code(IntEnum):
    """The values of `nvmlReturn_t` that a monitor handles; NVML's binary interface fixes them."""

    IMPOSSIBLE = -2
    """Not an error of NVML's own: NVML answered with an impossible number."""
    NOT_TEXT = -1
    """Not an error of NVML's own: NVML answered with text that cannot be decoded."""
    SUCCESS = 0
    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    INSUFFICIENT_SIZE = 7
    INSUFFICIENT_POWER = 8
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    IRQ_ISSUE = 11
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    CORRUPTED_INFOROM = 14
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    OPERATING_SYSTEM = 17
    LIB_RM_VERSION_MISMATCH = 18
    IN_USE = 19
    MEMORY = 20
    NO_DATA = 21
    INSUFFICIENT_RESOURCES = 23
    ARGUMENT_VERSION_MISMATCH = 25
    DEPRECATED = 26
    NOT_READY = 27
    GPU_NOT_FOUND = 28
    INVALID_STATE = 29
    UNKNOWN = 999


class NvmlError(Exception):
    """A call that failed; `reason` says why in a few words, `absent` is the reading then."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code
        self.reason = reason_of(code, words)
        self.absent = absent_of(code, words)


class TooManyError(Exception):
    """A list of an impossible length; its message becomes the reason of a `CallError`."""

    def __init__(self, count: int) -> None:
        super().__init__(f"the driver answered {count} entries")


class CallError(NvmlError):
    """This one call failed."""


class GpuLostError(NvmlError):
    """The device does not answer any more; no other call about it can succeed."""


class NvmlGoneError(NvmlError):
    """NVML as a whole no longer answers and has to be initialised again."""


class NvmlUnusableError(GputuiError):
    """NVML cannot be used; the message becomes `DeviceLook.problem`."""


REASONS: dict[int, str] = {
    Code.NOT_TEXT: "the driver answered with unreadable text",
    Code.UNINITIALIZED: "NVML was shut down",
    Code.INVALID_ARGUMENT: "not known for this device",
    Code.NOT_SUPPORTED: "not supported by this device",
    Code.NO_PERMISSION: "insufficient permissions",
    Code.NOT_FOUND: "not found",
    Code.INSUFFICIENT_POWER: "too little power",
    Code.DRIVER_NOT_LOADED: "the driver is not loaded",
    Code.TIMEOUT: "the driver did not answer in time",
    Code.IRQ_ISSUE: "an interrupt problem",
    Code.LIBRARY_NOT_FOUND: "a library of the driver was not found",
    Code.FUNCTION_NOT_FOUND: "not known to this driver",
    Code.CORRUPTED_INFOROM: "corrupted infoROM",
    Code.GPU_IS_LOST: "GPU is lost",
    Code.RESET_REQUIRED: "GPU needs a reset",
    Code.OPERATING_SYSTEM: "blocked by the operating system",
    Code.LIB_RM_VERSION_MISMATCH: "driver and library differ in version",
    Code.IN_USE: "in use by another program",
    Code.MEMORY: "the driver is out of memory",
    Code.NO_DATA: "no data",
    Code.INSUFFICIENT_RESOURCES: "the driver is out of resources",
    Code.ARGUMENT_VERSION_MISMATCH: "not known to this driver",
    Code.DEPRECATED: "no longer supported by this driver",
    Code.NOT_READY: "not ready yet",
    Code.GPU_NOT_FOUND: "GPU is not on the bus",
    Code.INVALID_STATE: "not possible in the device's state",
    Code.UNKNOWN: "unknown error in the driver",
}
"""Errors as reasons of absent readings."""


def reason_of(code: int, words: str = "") -> str:
    """An error in a few words; for an error that `REASONS` lacks, NVML's own words and the number."""
    if code == Code.IMPOSSIBLE:
        return words
    if code in REASONS or not words or str(code) in words:
        return REASONS.get(code, f"NVML error {code}")
    return f"{words} (NVML error {code})"


def absent_of(code: int, words: str = "") -> Absent:
    """The reading where a call failed with this error."""
    is_supported = code != Code.NOT_SUPPORTED
    return Absent(reason_of(code, words), AbsentKind.FAILED if is_supported else AbsentKind.NOT_SUPPORTED)


TOO_OLD = absent_of(Code.FUNCTION_NOT_FOUND)

UNSUPPORTED = frozenset({Code.NOT_SUPPORTED, Code.FUNCTION_NOT_FOUND, Code.ARGUMENT_VERSION_MISMATCH, Code.DEPRECATED})
"""Errors that a call about a device raises every time, until NVML is initialised again."""

KINDS: dict[int, type[NvmlError]] = {
    Code.GPU_IS_LOST: GpuLostError,
    Code.RESET_REQUIRED: GpuLostError,
    Code.GPU_NOT_FOUND: GpuLostError,
    Code.UNINITIALIZED: NvmlGoneError,
    Code.DRIVER_NOT_LOADED: NvmlGoneError,
    Code.LIBRARY_NOT_FOUND: NvmlGoneError,
    Code.LIB_RM_VERSION_MISMATCH: NvmlGoneError,
}
"""Errors that concern more than the one call."""

LOST: dict[int, Lost] = {
    Code.GPU_IS_LOST: Lost(
        "GPU is lost",
        "it has fallen off the bus or stopped answering (`dmesg | grep -i xid` says why); "
        "close every program that uses it, this monitor included, and reset it with `nvidia-smi --gpu-reset`, or "
        "reboot.",
    ),
    Code.RESET_REQUIRED: Lost(
        "GPU needs a reset after an error",
        "`dmesg | grep -i xid` says which; close every program that uses it, this monitor included, and run "
        "`nvidia-smi --gpu-reset`, or reboot.",
    ),
    Code.GPU_NOT_FOUND: Lost("GPU is no longer on the bus", "check its seating and power, and reboot."),
    Code.NO_PERMISSION: Lost("No permission to open this GPU", "check the access rights of its /dev/nvidia* file."),
    Code.INSUFFICIENT_POWER: Lost("GPU has too little power", "check that its power cables are attached."),
    Code.IRQ_ISSUE: Lost("The kernel has an interrupt problem with this GPU (see `dmesg`)", "reboot."),
}
"""Why a device does not answer at all, with the remedy."""

_NOT_INITIALISED: dict[int, tuple[str, str]] = {
    Code.LIBRARY_NOT_FOUND: (
        "NVIDIA's driver library libnvidia-ml.so.1 was not found.",
        "Install the NVIDIA driver; in a container, start it with GPU access (`docker run --gpus all`).",
    ),
    Code.DRIVER_NOT_LOADED: (
        "The NVIDIA kernel driver is not loaded.",
        "Load it with `sudo modprobe nvidia`, or reboot if it was just installed.",
    ),
    Code.LIB_RM_VERSION_MISMATCH: (
        "The NVIDIA kernel driver and the driver library have different versions, as after a driver upgrade.",
        "Reboot, or stop all GPU programs and reload the kernel modules (`rmmod` and `modprobe nvidia`).",
    ),
    Code.NO_PERMISSION: (
        "No permission to talk to the NVIDIA driver.",
        "Check the access rights of /dev/nvidiactl and /dev/nvidia*, and the groups of this user.",
    ),
    Code.FUNCTION_NOT_FOUND: (
        "The NVIDIA driver is too old: its library lacks a function that is needed.",
        "Upgrade the driver.",
    ),
    Code.UNINITIALIZED: ("NVML was shut down.", "gputui keeps trying to initialise it again."),
    Code.UNKNOWN: (
        "The NVIDIA driver failed with an unknown error.",
        "In a container, restart it: it may have lost its access to /dev/nvidia*. Otherwise see `dmesg`, and reboot.",
    ),
}

STUB = (
    "This libnvidia-ml.so.1 is the CUDA toolkit's stub, which only serves to link programs: {}.",
    "Take its folder out of LD_LIBRARY_PATH and /etc/ld.so.conf.d; the driver's own library comes with the driver.",
)
"""Cause, with a place for the library's path, and remedy."""


def lost_by(error: NvmlError) -> Lost:
    """Why a device does not answer, and what to do."""
    return LOST.get(error.code, Lost(f"No answer ({error.reason})", "see `dmesg`, and reboot if it persists."))


def problem_of(error: NvmlError, detail: str = "") -> NvmlUnusableError:
    """Why NVML as a whole cannot be used, and what to do; `detail` is a sentence between the two."""
    generic = (f"NVML could not be used: {error.reason}.", "See `dmesg` for messages of the NVIDIA driver.")
    cause, remedy = _NOT_INITIALISED.get(error.code, generic)
    return NvmlUnusableError(f"{cause} {detail}".rstrip(), remedy)
