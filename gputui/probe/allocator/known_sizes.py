"""Blocks that no Python object owns but that are known by their size: workspaces, and autocast's copies of weights."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from gputui.probe.objects.torch_types import Torch
from gputui.protocol.categories import ACTIVATION, WEIGHTS, WORKSPACE

KIB = 1024
DEFAULT_CUBLAS = 2 * 4096 * KIB + 8 * 16 * KIB
LARGE_CUBLAS, NEWER_MAJOR = 8 * 4096 * KIB, 10
DEFAULT_CUBLASLT = 1024 * KIB
"""PyTorch takes one workspace for each handle and stream out of its own allocator (CublasHandlePool.cpp)."""


def known_sizes(torch: Torch, devices: set[int], storages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a block without an owner most likely is, by size: {device, size_bytes (as requested), category, owner}."""
    if not torch.cuda.is_initialized():
        return []
    sizes = autocast_copies(torch, storages)
    for device in sorted(devices or {torch._C._cuda_getDevice()}):  # there are none in a hasty look
        sizes += [_known(device, size, WORKSPACE, "cuBLAS workspace") for size in _cublas_bytes(torch, device)]
        sizes.append(_known(device, _cublaslt_bytes(), WORKSPACE, "cuBLASLt workspace"))
    return [known for known in sizes if known["size_bytes"]]


def autocast_copies(torch: Torch, storages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The copies of weights that autocast caches until its outermost block ends.

    Most of them are saved by autograd, which names them; those of biases, and under checkpointing, are not.
    """
    if not (_is_inside_autocast(torch) and torch.is_autocast_cache_enabled()):
        return []
    is_old = not hasattr(torch, "get_autocast_dtype")  # before PyTorch 2.4; newer ones warn of the other function
    dtype = torch.get_autocast_gpu_dtype() if is_old else torch.get_autocast_dtype("cuda")
    copies: dict[tuple[int, int], str] = {}
    for storage in storages:
        if storage["category"] in WEIGHTS and storage["dtype"] == "float32" and storage["device"] >= 0:
            size_bytes = storage["size_bytes"] // 4 * dtype.itemsize
            owner = f"{str(dtype).split('.')[-1]} copy of a parameter of shape {storage['shape']} (autocast)"
            copies.setdefault((storage["device"], size_bytes), owner)
    return [_known(device, size_bytes, ACTIVATION, owner) for (device, size_bytes), owner in copies.items()]


def _is_inside_autocast(torch: Torch) -> bool:
    """Whether this thread is inside an autocast block: by the depth, as operations switch autocast itself off."""
    depth = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return bool(depth > 0)


def _known(device: int, size_bytes: int, category: str, owner: str) -> dict[str, Any]:
    return {"device": device, "size_bytes": size_bytes, "category": category, "owner": owner}


def _cublas_bytes(torch: Torch, device: int) -> tuple[int, ...]:
    """The sizes that it may have: on GPUs newer than Hopper, older versions of PyTorch take the smaller one."""
    configured_bytes = _configured_bytes(os.environ.get("CUBLAS_WORKSPACE_CONFIG", ""))
    if configured_bytes is not None:
        return (configured_bytes,)
    properties = torch.cuda._get_device_properties(device)  # the public function may ask NVML, which takes milliseconds
    if properties.major >= NEWER_MAJOR:
        return DEFAULT_CUBLAS, LARGE_CUBLAS
    return (LARGE_CUBLAS if (properties.major, properties.minor) == (9, 0) else DEFAULT_CUBLAS,)


def _configured_bytes(setting: str) -> int | None:
    """ ":4096:2:16:8" is twice 4096 KiB and eight times 16 KiB; None for a setting that PyTorch would ignore."""
    numbers = setting.split(":")[1:]
    if not numbers or len(numbers) % 2 or not all(number.isdecimal() for number in numbers):
        return None
    pairs = zip(numbers[::2], numbers[1::2])
    return sum(int(size_kib) * int(count) for size_kib, count in pairs) * KIB


def _cublaslt_bytes() -> int:
    setting = os.environ.get("CUBLASLT_WORKSPACE_SIZE", "")
    return int(setting) * KIB if setting.isdecimal() else DEFAULT_CUBLASLT
