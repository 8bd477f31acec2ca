"""How many bytes an element of a weight takes: data types, and the methods of quantisation that vLLM knows.

Sources: the classes of vLLM's `model_executor/layers/quantization`, and the formats they read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

WIDTHS = {"float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2}
STORED_WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1,
                 "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "F4": 0.5, "U32": 4, "U16": 2, "U64": 8}  # fmt: skip
"""Bytes of an element, by safetensors' names of data types."""
FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
"""Data types in a file that a server converts to its own on loading."""


@dataclass(frozen=True, slots=True)
class Quantization:
    """`width` is the bytes of an element of linear layers, with scales; `only_experts`: only experts are quantised."""

    name: str
    width: float
    only_experts: bool = False


ON_LOADING = {"fp8": 1.0, "bitsandbytes": 0.5 + 4 / 64}
"""The widths of methods for which `--quantization` quantises a plain model on loading."""
_FLOAT8, _BNB, _MX4, _NV4 = 1.0, 0.5 + 4 / 64, 0.5 + 1 / 32, 0.5 + 1 / 16
_OF_METHOD = {"fp8": _FLOAT8, "fbgemm_fp8": _FLOAT8, "bitsandbytes": _BNB, "mxfp4": _MX4, "ptpc_fp8": _FLOAT8}
_OF_ALGORITHM = {"FP8": _FLOAT8, "NVFP4": _NV4, "MXFP8": 1 + 1 / 32}
_BITS_AT_MOST = 16
SAME = {"awq_marlin": "awq", "gptq_marlin": "gptq", "auto_awq": "awq", "auto_gptq": "gptq"}
"""Names of faster kernels, which vLLM chooses by itself, with the name of the format that they read."""


def stored_quantization(configuration: Mapping[str, Any]) -> Quantization | None:
    """The quantisation in `quantization_config`; None where a model has none, or a method that gputui does not know."""
    name = str(configuration.get("quant_method") or "")[:40].lower()
    if name == "bitsandbytes" and configuration.get("load_in_8bit") is True:
        return Quantization(name, 1.0)
    if name.startswith("modelopt") and (width := _OF_ALGORITHM.get(str(configuration.get("quant_algo")))):
        return Quantization(name, width)
    if name == "compressed-tensors":
        return _of_groups(name, configuration.get("config_groups"))
    if width := _OF_METHOD.get(name):
        return Quantization(name, width, only_experts=name == "mxfp4")
    return _of_bits(name, configuration.get("bits"), configuration.get("group_size")) if name else None


def _of_groups(name: str, groups: object) -> Quantization | None:
    """The quantisation of the first group of compressed-tensors; files with several groups are rare."""
    first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = first.get("weights") if isinstance(first, Mapping) else None
    return _of_bits(name, weights.get("num_bits"), weights.get("group_size")) if isinstance(weights, Mapping) else None


def _of_bits(name: str, bits: object, group: object) -> Quantization | None:
    """Elements of `bits` bits, with a scale (2 bytes) and a zero point for each group of elements."""
    if type(bits) is not int or not 0 < bits <= _BITS_AT_MOST:
        return None
    size = group if type(group) is int and group > 0 else 1 << 20
    return Quantization(name, bits / 8 + (2 + bits / 8) / size)
