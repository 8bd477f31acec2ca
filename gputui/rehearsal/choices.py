"""Choices that PyTorch makes by the device, replaced by those for a GPU: kernels, workspaces, autocast, foreach."""

from __future__ import annotations

import importlib
import os
import re
import warnings
from contextlib import ExitStack, contextmanager
from typing import Any, Callable, Iterator

import torch
from torch import Tensor

from .accumulation import Accumulation
from .autocast import Autocast
from .gpu import Gpu, Streams, answers_of
from .reductions import SUMS, buffer_bytes
from .requests import Requests
from .tensors import DeviceTensor

CUBLAS_WORKSPACE_BYTES = 8_519_680
LARGE_CUBLAS_WORKSPACE_BYTES = 33_554_432
LARGE_ON = ((9, 0), (10, 0))
"""Compute capabilities on which cuBLAS has the large workspace."""
FLASH_FROM = (8, 0)
CUBLASLT_WORKSPACE_BYTES = 1 << 20
MULTIPLY = frozenset({"mm", "addmm", "bmm", "baddbmm", "addmv", "mv", "dot", "addbmm"})
CONVOLVE = frozenset({"convolution", "convolution_backward"})
VERSION = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
FLASH_TYPES = (torch.float16, torch.bfloat16)
FLASH_HEAD_AT_MOST = 256

aten = torch.ops.aten


def dropout(tensor: Tensor, probability: float, is_training: bool) -> Tensor:
    """Dropout by the kernel for GPUs, which keeps a mask of one byte for each element."""
    if not is_training or probability == 0 or tensor.numel() == 0:
        return tensor
    if probability == 1:
        return tensor.mul(torch.zeros((), dtype=tensor.dtype, device=tensor.device))
    result: Tensor = torch.native_dropout(tensor, probability, True)[0]
    return result


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Adds a bias in place after the multiplication: PyTorch does so for plain tensors, but not for subclasses."""
    if bias is None:
        return torch.matmul(inputs, weight.t())
    if inputs.dim() == 2:
        return torch.addmm(bias, inputs, weight.t())
    if inputs.is_contiguous() and bias.dim() == 1 and inputs.dim() > 2:
        flat = torch.addmm(bias, inputs.reshape(-1, inputs.shape[-1]), weight.t())
        return flat.view(*inputs.shape[:-1], flat.shape[-1])
    return torch.matmul(inputs, weight.t()).add_(bias)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """scaled_dot_product_attention with the kernel that a GPU of compute capability 8.0 or newer gets."""
    heads = query.shape[-1] == value.shape[-1] and query.dim() == 4
    backends = torch.backends.cuda
    can_flash = heads and query.dtype in FLASH_TYPES and query.shape[-1] <= FLASH_HEAD_AT_MOST
    can_flash = can_flash and torch.cuda.get_device_capability() >= FLASH_FROM
    if attn_mask is None and can_flash and backends.flash_sdp_enabled():
        flash = aten._scaled_dot_product_flash_attention.default
        out: Tensor = flash(query, key, value, dropout_p, is_causal, False, scale=scale)[0]
        return out
    is_grouped = enable_gqa and query.shape[-3] != key.shape[-3]
    if query.dim() == 4 and not is_grouped and query.dtype != torch.float64 and backends.mem_efficient_sdp_enabled():
        bias = _bias(attn_mask, query, key)
        efficient = aten._scaled_dot_product_efficient_attention.default
        needs_gradient = torch.is_grad_enabled() and any(part.requires_grad for part in (query, key, value))
        return efficient(query, key, value, bias, needs_gradient, dropout_p, is_causal, scale=scale)[0]
    math = aten._scaled_dot_product_attention_math.default
    return math(query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa)[0]


def _bias(mask: Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
    """A mask as the memory-efficient kernel takes it: numbers added to the scores, expanded to every head."""
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        mask = torch.empty(mask.shape, dtype=query.dtype, device=query.device)
    return mask.expand(*query.shape[:-1], key.shape[-2])


class Workspaces:
    """The workspaces of matrix multiplications and convolutions, which come from PyTorch's allocator.

    cuBLAS multiplies; cuBLASLt adds a bias, too, and needs a handle of cuBLAS. PyTorch keeps a workspace of cuBLAS for
    each thread that multiplies (forward, backward) from its first multiplication on, since 2.9 one of cuBLASLt as well.
    Since 2.12 cuBLASLt uses that of cuBLAS; since 2.15 each operation has its own. Without cuDNN a convolution
    multiplies the patches of a sample, written as columns; with cuDNN, its workspace is not known.
    """

    def __init__(self, requests: Requests, gpu: Gpu) -> None:
        self._requests = requests
        self._processors = gpu.processors
        default = LARGE_CUBLAS_WORKSPACE_BYTES if gpu.capability in LARGE_ON else CUBLAS_WORKSPACE_BYTES
        self._cublas_bytes = _configured_bytes(os.environ.get("CUBLAS_WORKSPACE_CONFIG", ""), default)
        is_kept = VERSION < (2, 15) or os.environ.get("TORCH_CUBLAS_WORKSPACE_CACHE") == "1"
        self._kept = {"cublas": is_kept, "cublaslt": is_kept and VERSION >= (2, 9)}
        self._is_shared = is_kept and VERSION >= (2, 12)
        self._there: set[Any] = set()

    def after(self, func: Any, args: Any, result: Any) -> None:
        """Request what an operation needs beside its result; called after the operation, when the result exists."""
        name = func.overloadpacket.__name__ if hasattr(func, "overloadpacket") else ""
        if name in SUMS:
            self._pass(buffer_bytes(name, args, result, self._processors))
        if name == "addmm":
            if self._kept["cublas"]:
                self._need("cublas", self._cublas_bytes)
            self._need("cublaslt", CUBLASLT_WORKSPACE_BYTES)
        elif name in MULTIPLY:
            self._need("cublas", self._cublas_bytes)
        elif name in CONVOLVE and not torch.backends.cudnn.enabled:
            output, weight = (result, args[1]) if name == "convolution" else (args[0], args[2])
            columns = None
            if weight.shape[2:].numel() > 1:
                size_bytes = weight.shape[1:].numel() * output.shape[2:].numel() * weight.element_size()
                columns = self._requests.add(size_bytes, "workspace")
            self._need("cublas", self._cublas_bytes)
            if columns is not None:
                self._requests.free(columns)

    def _pass(self, size_bytes: int) -> None:
        """Request memory and free it at once, as for the time of a kernel."""
        if size_bytes:
            self._requests.free(self._requests.add(size_bytes, "workspace"))

    def _need(self, library: str, size_bytes: int) -> None:
        """Request a library's workspace: for this operation, or if PyTorch keeps it for the first one of a thread."""
        workspace = (library, torch._C._current_graph_task_id() != -1)
        if workspace in self._there or (self._is_shared and library == "cublaslt"):
            return
        number = self._requests.add(size_bytes, "workspace")
        if self._kept[library]:
            self._there.add(workspace)
        else:
            self._requests.free(number)


def _configured_bytes(setting: str, default: int) -> int:
    """The bytes of CUBLAS_WORKSPACE_CONFIG: ":4096:2:16:8" is twice 4096 KiB and eight times 16 KiB."""
    numbers = setting.split(":")[1:]
    if not numbers or len(numbers) % 2 or not all(number.isdecimal() for number in numbers):
        return default
    return sum(int(size) * int(count) for size, count in zip(numbers[::2], numbers[1::2])) * 1024


KERNELS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("dropout", dropout),
    ("linear", linear),
    ("scaled_dot_product_attention", attention),
)
"""Operations that PyTorch composes of others, in a way that it chooses by the device."""


@contextmanager
def as_on_a_gpu(requests: Requests, gpu: Gpu) -> Iterator[None]:
    """Let PyTorch choose as it does where there is a GPU, in the body of the `with`."""
    with ExitStack() as stack:
        library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a build with CUDA warns that its own kernels are not taken
            for name, kernel in KERNELS:
                library.impl(name, kernel, "AutogradCUDA")
                library.impl(name, kernel, "CUDA")
            Autocast().enter(stack, library, replace)
        for owner, answers in answers_of(gpu, Streams(requests)).items():
            for name, value in answers.items():
                replace(stack, owner, name, value if callable(value) else lambda *_, _value=value, **__: _value)
        replace(stack, torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
        _allow_foreach(stack)
        if hasattr(torch._C, "_ensureCUDADeviceGuardSet"):  # "cuda" without an index asks the driver otherwise
            torch._C._ensureCUDADeviceGuardSet()
        if hasattr(torch._C, "_set_only_lift_cpu_tensors"):  # torch.tensor(data, device="cuda") begins in host memory
            torch._C._set_only_lift_cpu_tensors(True)
            stack.callback(torch._C._set_only_lift_cpu_tensors, False)
        Accumulation()
        yield


def replace(stack: ExitStack, owner: Any, name: str, value: Any) -> None:
    """Set an attribute of a module or class until the stack ends; nothing happens if the attribute does not exist."""
    if hasattr(owner, name):
        stack.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, value)


def _allow_foreach(stack: ExitStack) -> None:
    """Let optimizers use their foreach kernels for tensors without data, as for parameters on a real GPU."""
    for name in ("torch.optim.optimizer", "torch.utils._foreach_utils"):
        types: list[Any] = importlib.import_module(name)._foreach_supported_types
        types.append(DeviceTensor)
        stack.callback(types.remove, DeviceTensor)
