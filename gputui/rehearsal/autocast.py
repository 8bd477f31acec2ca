"""Autocast as on a GPU: PyTorch's own checks the device in C++, and does not cast tensors without data."""

from __future__ import annotations

import functools
from contextlib import ExitStack
from typing import Any, Callable

import torch
from torch.utils._pytree import tree_map

from .tensors import DEVICE, DeviceTensor

aten = torch.ops.aten
LOWER = (
    *("_convolution", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d"),
    *("conv_transpose3d", "convolution", "prelu", "addmm", "addmv", "addr", "matmul", "einsum", "mm", "mv"),
    *("linalg_vecdot", "linear", "addbmm", "baddbmm", "bmm", "chain_matmul", "linalg_multi_dot", "lstm_cell"),
    *("gru_cell", "rnn_tanh_cell", "rnn_relu_cell", "scaled_dot_product_attention"),
)
SINGLE = (
    *("acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt", "sinh"),
    *("tan", "pow", "softplus", "layer_norm", "native_layer_norm", "group_norm", "nuclear_norm", "cosine_similarity"),
    *("poisson_nll_loss", "cosine_embedding_loss", "nll_loss", "nll_loss2d", "hinge_embedding_loss", "kl_div"),
    *("l1_loss", "smooth_l1_loss", "huber_loss", "mse_loss", "margin_ranking_loss", "multilabel_margin_loss"),
    *("soft_margin_loss", "triplet_margin_loss", "multi_margin_loss", "binary_cross_entropy_with_logits", "dist"),
    *("pdist", "cdist", "renorm", "logsumexp"),
)
SINGLE_RESULT = (
    "prod",
    "softmax",
    "log_softmax",
    "cumprod",
    "cumsum",
    "linalg_vector_norm",
    "linalg_matrix_norm",
    "sum",
)
"""Operations that autocast runs in lower precision, in single precision, and with a result in single precision.

From ATen/autocast_mode.h, without those that run in the widest type of their arguments: PyTorch promotes these anyway.
"""
AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)


class Autocast:
    """Casts the arguments of operations, and keeps copies of parameters until the outermost autocast region ends."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[Any, Any]] = {}

    def enter(self, stack: ExitStack, library: Any, replace: Callable[..., None]) -> None:
        """Take the place of PyTorch's autocast until the stack ends."""
        for names, policy in ((LOWER, self._lower), (SINGLE, self._single), (SINGLE_RESULT, self._single_result)):
            for packet in (getattr(aten, name) for name in names if hasattr(aten, name)):
                for overload in (getattr(packet, name) for name in packet.overloads()):
                    if not any(argument.is_out for argument in overload._schema.arguments):
                        library.impl(overload, functools.partial(self._run, policy, overload), "AutocastCUDA")
        clear = torch.clear_autocast_cache

        def clear_all() -> None:
            self._copies.clear()
            clear()

        replace(stack, torch, "clear_autocast_cache", clear_all)

    def _run(self, policy: Callable[..., Any], overload: Any, *args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(AUTOCAST):
            return policy(overload, args, kwargs)

    def _lower(self, overload: Any, args: Any, kwargs: Any) -> Any:
        dtype = torch.get_autocast_dtype("cuda")
        return self._with_all(overload, args, kwargs, dtype)

    def _single(self, overload: Any, args: Any, kwargs: Any) -> Any:
        return self._with_all(overload, args, kwargs, torch.float32)

    def _single_result(self, overload: Any, args: Any, kwargs: Any) -> Any:
        names = [argument.name for argument in overload._schema.arguments]
        given = dict(zip(names, args), **kwargs)
        if "dtype" in names and given.get("dtype") is None and _is_eligible(args[0]):
            given["dtype"] = torch.float32
        return overload(**given)

    def _with_all(self, overload: Any, args: Any, kwargs: Any, dtype: torch.dtype) -> Any:
        """Run an operation with its arguments cast, the last one first: so does PyTorch's compiled code."""
        named = tree_map(lambda leaf: self._cast(leaf, dtype), kwargs)
        cast = [tree_map(lambda leaf: self._cast(leaf, dtype), value) for value in reversed(args)]
        return overload(*reversed(cast), **named)

    def _cast(self, leaf: Any, dtype: torch.dtype) -> Any:
        if not _is_eligible(leaf) or leaf.dtype == dtype:
            return leaf
        is_kept = leaf.dtype == torch.float32 and leaf.requires_grad and leaf.is_leaf and not leaf._is_view()
        if not is_kept or not torch.is_autocast_cache_enabled():
            return leaf.to(dtype)
        known = self._copies.get(id(leaf))
        if known is None:
            known = self._copies[id(leaf)] = leaf, leaf.to(dtype)
        return known[1]


def _is_eligible(leaf: Any) -> bool:
    is_ours = isinstance(leaf, DeviceTensor) and leaf.place is DEVICE
    return is_ours and leaf.dtype.is_floating_point and leaf.dtype != torch.float64
