"""Loads NVML: the file that the loader finds, one in other folders, or after a driver upgrade the new one."""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import sys
from contextlib import suppress
from types import ModuleType
from typing import Any, cast

from gputui.regular_files import open_regular
from gputui.sources.nvml.errors import Code, NvmlGoneError, problem_of
from gputui.sources.procfs import ProcFs

_LIBRARY = "libnvidia-ml.so.1"
_LIBRARY_VERSION = re.compile(r"libnvidia-ml\.so\.(\d+(?:\.\d+)+)$")

FOLDERS = ("/run/opengl-driver/lib", "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64")
"""Where NixOS, WSL and some containers have the driver's libraries, unknown to the loader."""

_STUB_SAYS = b"stub library"
"""Words of the banner of the CUDA toolkit's stub."""
_STUB_BYTES_AT_MOST = 1 << 20


def with_current_library(module: ModuleType) -> ModuleType:
    """`module` with the library loaded; after a driver upgrade, a fresh copy of `module` that uses the new library.

    The loader would return the old library for the same name, so the new file is loaded by its path. The old library
    and module stay untouched: another thread may be in a call.
    """
    mapped = _mapped_libraries(ProcFs())
    for folder in {os.path.dirname(path) for path in mapped}:
        current = f"{folder}/{_LIBRARY}"
        if not os.path.exists(current) or os.stat(current).st_ino in mapped.values():
            continue
        try:
            library = ctypes.CDLL(os.path.realpath(current))
        except OSError as error:  # the upgrade is still under way
            raise problem_of(NvmlGoneError(Code.LIBRARY_NOT_FOUND, str(error))) from error
        del sys.modules["pynvml"]
        fresh: Any = importlib.import_module("pynvml")
        fresh.nvmlLib = library
        return cast(ModuleType, fresh)
    if module.nvmlLib is None:
        vars(module)["nvmlLib"] = _loaded()
    return module


def _loaded() -> ctypes.CDLL | None:
    """The library, None where no file is found."""
    for name in (_LIBRARY, *(f"{folder}/{_LIBRARY}" for folder in FOLDERS)):
        with suppress(OSError):
            return ctypes.CDLL(name)
    return None


def stub() -> str:
    """The path of the CUDA toolkit's stub, which programs are linked with, if that was loaded; "" otherwise."""
    for path in _mapped_libraries(ProcFs()):
        with suppress(OSError), open_regular(path) as file:
            if _STUB_SAYS in file.read(_STUB_BYTES_AT_MOST):
                return path
    return ""


def versions(proc: ProcFs) -> str:
    """ "Kernel driver 570.86.15, library 580.95.05." (by the library's file name); "" if either version is unknown."""
    kernel = proc.driver_version()
    libraries = [match for path in _mapped_libraries(proc) if (match := _LIBRARY_VERSION.search(path))]
    return f"Kernel driver {kernel}, library {libraries[-1][1]}." if kernel and libraries else ""


def _mapped_libraries(proc: ProcFs) -> dict[str, int]:
    """Path and inode of each NVML library that this process maps, deleted files included; {} where /proc is empty."""
    try:
        mapped = list(proc.mapped_files(os.getpid()))
    except OSError:
        return {}
    return {file.path: file.inode for file in mapped if os.path.basename(file.path).startswith("libnvidia-ml.so")}
