"""nvidia-ml-py: checked to be the right package, initialised, and called; its errors become ours."""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import sys
from types import ModuleType
from typing import Any, TypeAlias, cast

from gputui.sources.nvml.errors import KINDS, CallError, Code, NvmlError, NvmlGoneError, NvmlUnusableError, problem_of
from gputui.sources.procfs import ProcFs

Handle = object
"""A device's handle: opaque, and used only in further calls."""
Raw: TypeAlias = Any
"""What nvidia-ml-py returns: numbers, strings and structures without types."""

_LIBRARY = "libnvidia-ml.so.1"
_LIBRARY_VERSION = re.compile(r"libnvidia-ml\.so\.(\d+(?:\.\d+)+)$")

_NEEDED = ("NVMLError", "nvmlLib", "nvmlMemory_v2", "nvmlDeviceGetComputeRunningProcesses_v3")
"""Names that nvidia-ml-py has since 12.535, and that other packages with a module `pynvml` lack."""

_WITNESSES = ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetPowerUsage")
"""Calls that reach the kernel driver; the second is made where the first is the one in doubt."""

_REPAIR = "Run `pip uninstall pynvml nvidia-ml-py3` and then `pip install --force-reinstall nvidia-ml-py`."


class Nvml:
    """NVML, initialised until `close`. Raises `NvmlUnusableError` where it cannot be used."""

    def __init__(self) -> None:
        self._module = _with_current_library(_binding())
        try:
            self.call("nvmlInit")
        except NvmlError as error:
            is_mismatch = error.code == Code.LIB_RM_VERSION_MISMATCH
            raise problem_of(error, versions(ProcFs()) if is_mismatch else "") from error

    def call(self, function: str, *arguments: object) -> Raw:
        """What `function` returns. Raises `CallError`, `GpuLostError` or `NvmlGoneError`."""
        try:
            return getattr(self._module, function)(*arguments)
        except self._module.NVMLError as error:
            raise KINDS.get(error.value, CallError)(error.value, str(error)) from error
        except AttributeError as error:
            if hasattr(self._module, function):
                raise
            raise CallError(Code.FUNCTION_NOT_FOUND, "not known to this version of nvidia-ml-py") from error
        except UnicodeDecodeError as error:
            raise CallError(Code.NOT_TEXT, str(error)) from error

    def call_about(self, device: Handle, function: str, *arguments: object) -> Raw:
        """What `function` returns about a device.

        `NvmlGoneError` is raised only where another call about the device says the same; otherwise `CallError`.
        """
        try:
            return self.call(function, device, *arguments)
        except NvmlGoneError as error:
            if self._still_answers(device, besides=function):
                raise CallError(error.code, str(error)) from error
            raise

    def _still_answers(self, device: Handle, besides: str) -> bool:
        try:
            self.call(next(witness for witness in _WITNESSES if witness != besides), device)
        except NvmlError as error:
            return not isinstance(error, NvmlGoneError)
        return True

    def close(self) -> None:
        """Shut NVML down; one that no longer answers is not an error here."""
        try:
            self.call("nvmlShutdown")
        except NvmlError:
            return


def _binding() -> ModuleType:
    try:
        module = importlib.import_module("pynvml")
    except (ImportError, SyntaxError) as error:  # nvidia-ml-py3 is a module for Python 2
        if isinstance(error, ModuleNotFoundError) and error.name == "pynvml":
            cause, remedy = "The Python package nvidia-ml-py is not installed.", "Run `pip install nvidia-ml-py`."
        else:
            cause, remedy = f"The Python module pynvml cannot be imported ({error}).", _REPAIR
        raise NvmlUnusableError(cause, remedy) from error
    if all(hasattr(module, name) for name in _NEEDED):
        return module
    where = module.__file__ or "an unknown place"
    cause = f"The Python module pynvml at {where} does not belong to nvidia-ml-py 12.535 or newer."
    raise NvmlUnusableError(cause, _REPAIR)


def _with_current_library(module: ModuleType) -> ModuleType:
    """`module`, or after a driver upgrade a fresh copy of it that uses the library now on disk.

    The loader resolves the library's name to the one loaded already, so the new file is loaded by its path. The old
    library and module stay untouched: another thread may be in a call.
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
        fresh: Raw = importlib.import_module("pynvml")
        fresh.nvmlLib = library
        return cast(ModuleType, fresh)
    return module


def versions(proc: ProcFs) -> str:
    """A sentence such as "Kernel driver 570.86.15, library 580.95.05.", or "" where either is unknown.

    The driver's library has its version in its name.
    """
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
