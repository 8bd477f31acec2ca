"""The versions of the kernel driver and of the driver library, read without NVML, for when the two do not match."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_KERNEL_DRIVER = Path("/proc/driver/nvidia/version")
_IN_TEXT = re.compile(r"Kernel Module.*?\s(\d+(?:\.\d+)+)")
_IN_NAME = re.compile(r"libnvidia-ml\.so\.(\d+(?:\.\d+)+)$")


def versions(libraries: Iterable[Path], kernel_driver: Path = _KERNEL_DRIVER) -> str:
    """A sentence such as "Kernel driver 570.86.15, library 580.95.05.", or "" where they cannot be told.

    `libraries` are the files that are loaded; a driver's library has its version in its name.
    """
    text = kernel_driver.read_text(encoding="utf-8") if kernel_driver.exists() else ""
    kernel = _IN_TEXT.search(text)
    library = [match for path in libraries if (match := _IN_NAME.search(path.name))]
    if kernel is None or not library:
        return ""
    return f"Kernel driver {kernel[1]}, library {library[-1][1]}."
