"""GPUs by name, with how much of their memory PyTorch can reserve."""

from __future__ import annotations

from typing import NamedTuple

from gputui.errors import UsageError, did_you_mean
from gputui.units import MIB

CONTEXT_MIB = 640
"""An estimate of what a process holds on a device beside PyTorch's reserved memory: a CUDA context with its loaded
kernels takes some 500 MiB (https://github.com/pytorch/pytorch/issues/20532), and libraries take more."""


class KnownDevice(NamedTuple):
    """A GPU. `total_mib` is its memory as `nvidia-smi` prints it behind the slash, `source` where that figure is from.

    `product` is the name that `torch.cuda` tells, `capability` the compute capability (developer.nvidia.com/cuda-gpus),
    `processors` the number of multiprocessors, and of threads on each, from NVIDIA's papers on its architectures.
    """

    name: str
    total_mib: int
    product: str
    capability: tuple[int, int]
    processors: tuple[int, int]
    source: str

    @property
    def budget_bytes(self) -> int:
        """How much PyTorch can reserve where nothing else runs on the device."""
        return (self.total_mib - CONTEXT_MIB) * MIB


_TOTALS = "https://github.com/modal-labs/modal-client/pull/2797"
DEVICES = (
    KnownDevice(
        "B200", 183_359, "NVIDIA B200", (10, 0), (148, 2048), "https://github.com/NVIDIA/TensorRT-LLM/issues/10278"
    ),
    KnownDevice("H200", 143_771, "NVIDIA H200", (9, 0), (132, 2048), "nvidia-smi, driver 580.159"),
    KnownDevice(
        "H100", 81_559, "NVIDIA H100 80GB HBM3", (9, 0), (132, 2048), "https://github.com/NVIDIA/nccl/issues/1264"
    ),
    KnownDevice("A100-80GB", 81_920, "NVIDIA A100-SXM4-80GB", (8, 0), (108, 2048), _TOTALS),
    KnownDevice("A100-40GB", 40_960, "NVIDIA A100-SXM4-40GB", (8, 0), (108, 2048), _TOTALS),
    KnownDevice("L40S", 46_068, "NVIDIA L40S", (8, 9), (142, 1536), _TOTALS),
    KnownDevice("A10", 23_028, "NVIDIA A10", (8, 6), (72, 1536), _TOTALS),
    KnownDevice("L4", 23_034, "NVIDIA L4", (8, 9), (58, 1536), _TOTALS),
    KnownDevice("T4", 15_360, "Tesla T4", (7, 5), (40, 1024), _TOTALS),
    KnownDevice(
        "RTX4090", 24_564, "NVIDIA GeForce RTX 4090", (8, 9), (128, 1536), "https://github.com/RLinf/RLinf/issues/255"
    ),
    KnownDevice(
        "RTX3090",
        24_576,
        "NVIDIA GeForce RTX 3090",
        (8, 6),
        (82, 1536),
        "https://github.com/noonghunna/club-3090/issues/1127",
    ),
)
_BY_NAME = {device.name.lower(): device for device in DEVICES}


def device_of(name: str) -> KnownDevice:
    """The device of a name such as "H100" or "rtx 4090". Raises UsageError for a name that is not in the table."""
    asked = name.lower().replace(" ", "").removeprefix("nvidia").strip("-_")
    device = _BY_NAME.get(asked)
    if device is None:
        cause = f"The memory of a {name!r} is not known."
        names = ", ".join(device.name for device in DEVICES)
        near = did_you_mean(asked, _BY_NAME)
        raise UsageError(cause, near or f"Known are {names}; or give the bytes with --budget, such as 23GiB.")
    return device
