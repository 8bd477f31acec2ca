"""What a CUDA context and its libraries take of the device, as NVML sees it, against what gputui takes for it."""

from __future__ import annotations

from typing import Any

from benchmarks.real_gpu.place import PROGRAMS, Place
from benchmarks.real_gpu.result import Result, Size
from gputui.explain.memory.drivers import DRIVER_BYTES, physical_device
from gputui.explain.serving.ahead.estimates import CONTEXT, DRIVER, LIBRARIES, Between
from gputui.model.attached.target import TorchDevice
from gputui.model.machine.device import CONTEXT_BYTES, Device, DeviceLook, DeviceMemory
from gputui.model.reading import Absent, value_of
from gputui.sources.nvml.source import NvmlSource
from gputui.units import MIB, format_bytes

PROGRAM = PROGRAMS / "library_sizes.py"
CONTEXT_STAGE = "context"
WORKSPACES = {"cublas": "cuBLAS workspace", "cublaslt": "cuBLASLt workspace"}
"""What the program does after it has a context, and what PyTorch's allocator then has."""


def sizes(place: Place, _size: Size) -> Result:
    """From a process without a context to one that has multiplied matrices."""
    result = Result()
    before = _device(place)
    if before is None:
        result.left_out.append("NVML has no device with the UUID that PyTorch gives: nothing was measured.")
        return result
    program = place.asked(str(PROGRAM))
    try:
        outside = {}
        for stage in (CONTEXT_STAGE, *WORKSPACES):
            told = program.ask(stage)
            outside[stage] = _held(result, place, program.pid, before) - told["reserved_bytes"]
            if stage in WORKSPACES:
                _judge_workspace(result, WORKSPACES[stage], told)
    finally:
        program.end()
    _judge_outside(result, outside)
    return result


def _device(place: Place) -> tuple[Device, DeviceLook] | None:
    source = NvmlSource()
    try:
        look = source.read()
    finally:
        source.close()
    device = physical_device(TorchDevice(0, place.uuid), look)
    return (device, look) if device else None


def _held(result: Result, place: Place, pid: int, before: tuple[Device, DeviceLook]) -> int:
    """What the process holds, or where NVML does not list it, by how much the device's use has grown."""
    found = _device(place)
    assert found is not None, "NVML no longer lists the device."
    device, look = found
    used_bytes, used_before = (_memory(each).used_bytes for each in (device, before[0]))
    uses = [use for use in look.uses if use.device == device.key]
    own = next((value_of(use.used_bytes) for use in uses if use.pid == pid), None)
    if own is None:
        sentence = "NVML does not list this process: what it holds is by how much the device's use has grown."
        result.left_out = list(dict.fromkeys([*result.left_out, sentence]))
        return used_bytes - used_before
    reserved = _memory(device).driver_reserved_bytes
    if reserved is not None and not place.is_fake:
        _expect(result, "memory that the driver keeps", DRIVER, reserved)
    if len(uses) == 1:
        _expect(result, "used beside the only process", Between(0, DRIVER_BYTES), used_bytes - own)
    return own


def _memory(device: Device) -> DeviceMemory:
    assert not isinstance(device.memory, Absent), device.memory.reason
    return device.memory


def _expect(result: Result, what: str, assumed: Between, found: int) -> None:
    """Note a figure, and whether it lies outside; the last of several counts."""
    result.figures[f"{what}, MiB"] = round(found / MIB, 1)
    result.differs = [difference for difference in result.differs if difference.what != what]
    words = f"{format_bytes(assumed.least)} to {format_bytes(assumed.most)}"
    result.expect(what, words, format_bytes(found), holds=assumed.least <= found <= assumed.most)


def _judge_workspace(result: Result, name: str, told: dict[str, Any]) -> None:
    """PyTorch 2.15 gives a workspace back at once; those before 2.9 have none of cuBLASLt."""
    result.figures[f"{name}, requested bytes"] = told["requests"]
    known = told["known"].get(name)
    others = [size for size in told["requests"] if size not in told["known"].values()]
    result.expect(f"{name}, bytes", known, others, holds=not others)


def _judge_outside(result: Result, outside: dict[str, int]) -> None:
    context = outside[CONTEXT_STAGE]
    _expect(result, "a CUDA context, with PyTorch's kernels", CONTEXT, context)
    after = outside[[*WORKSPACES][-1]]
    _expect(result, "what libraries take outside PyTorch", LIBRARIES, after - context)
    _expect(result, "both together", Between(0, CONTEXT_BYTES), after)
