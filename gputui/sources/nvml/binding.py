"""Calls NVML through nvidia-ml-py, after a check that it is the right package; its errors become those of `errors`."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any, TypeAlias

from gputui.sources.nvml.errors import (
    KINDS,
    STUB,
    CallError,
    Code,
    NvmlError,
    NvmlGoneError,
    NvmlUnusableError,
    TooManyError,
    problem_of,
)
from gputui.sources.nvml.library import stub, versions, with_current_library
from gputui.sources.nvml.raw_calls import RAW_CALLS
from gputui.sources.procfs import ProcFs

Handle = object
"""A device's handle: opaque, and used only in further calls."""
Raw: TypeAlias = Any
"""What nvidia-ml-py returns: numbers, strings and structures without types."""

_NEEDED = ("NVMLError", "nvmlLib", "nvmlMemory_v2", "c_nvmlProcessInfo_v2_t")
"""Names that nvidia-ml-py has since 12.535.108, and that other packages with a module `pynvml` lack."""

_WITNESSES = ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetPowerUsage")
"""Calls that reach the kernel driver; the second one is made where the first has failed itself."""

_REPAIR = "Run `pip uninstall pynvml nvidia-ml-py3` and then `pip install --force-reinstall nvidia-ml-py`."


class Nvml:
    """NVML, initialised until `close`. Raises `NvmlUnusableError` where it cannot be used."""

    def __init__(self) -> None:
        self._module = with_current_library(_binding())
        try:
            self.call("nvmlInit")
        except NvmlError as error:
            path = stub()
            if path:
                cause, remedy = STUB
                raise NvmlUnusableError(cause.format(path), remedy) from error
            is_mismatch = error.code == Code.LIB_RM_VERSION_MISMATCH
            raise problem_of(error, versions(ProcFs()) if is_mismatch else "") from error

    def call(self, function: str, *arguments: object) -> Raw:
        """What `function` returns. Raises `CallError`, `GpuLostError` or `NvmlGoneError`."""
        try:
            raw = RAW_CALLS.get(function)
            return raw(self._module, *arguments) if raw else getattr(self._module, function)(*arguments)
        except TooManyError as error:
            raise CallError(Code.IMPOSSIBLE, str(error)) from error
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

        Raises `NvmlGoneError` only where another call about the device raises it, too; otherwise `CallError`.
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
        """Shut NVML down; it is no error if NVML does not answer any more."""
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
    cause = f"The Python module pynvml at {where} does not belong to nvidia-ml-py 12.535.108 or newer."
    raise NvmlUnusableError(cause, _REPAIR)
