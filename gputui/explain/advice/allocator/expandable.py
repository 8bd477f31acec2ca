"""For the advice to use expandable segments: how to write the setting, and where it does harm."""

from __future__ import annotations

import re
from typing import NamedTuple

from gputui.model.attached.target import Greeting

OLD_VARIABLE, NEW_VARIABLE = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"
NEW_FROM = (2, 10)
"""The first version of PyTorch that knows the new variable; the old one works in all versions."""
USUAL_LIMIT = "It can fail where processes share CUDA tensors (CUDA IPC), as in many containers."


class Contraindication(NamedTuple):
    """Why a program that has imported `module` should not use expandable segments, or only with care."""

    module: str
    reason: str
    needs_old_variable: bool = False


RDMA = "registers GPU memory with the network card or with other processes, which fails or gets slow for such segments"
CONTRAINDICATIONS = (
    Contraindication(
        "vllm.device_allocator.cumem",
        "vLLM's sleep mode cannot use such segments: older versions end with an error, newer ones switch them off for"
        f" their pool, if they are set in {OLD_VARIABLE}",
        needs_old_variable=True,
    ),
    Contraindication("torch_memory_saver", "torch_memory_saver refuses to run with such segments"),
    Contraindication("nixl", f"NIXL {RDMA}"),
    Contraindication("mooncake", f"Mooncake {RDMA}"),
    Contraindication("ucxx", f"UCX {RDMA}"),
    Contraindication("ucp", f"UCX {RDMA}"),
    Contraindication("uccl", f"UCCL {RDMA}"),
)
"""Sources: vllm#14189, vllm#40812, torch_memory_saver's own check, nixl#1754, vllm#41237, uccl#839."""


def setting(greeting: Greeting) -> str:
    """The variable that this program's PyTorch reads, with its value: PYTORCH_ALLOC_CONF=expandable_segments:True."""
    is_old = any(one.needs_old_variable for one in _of(greeting)) or _version(greeting.torch) < NEW_FROM
    return f"{OLD_VARIABLE if is_old else NEW_VARIABLE}=expandable_segments:True"


def caution(greeting: Greeting) -> str:
    """The sentence after the advice: what speaks against the setting in this program, or where it usually fails."""
    reasons = list(dict.fromkeys(one.reason for one in _of(greeting)))
    return f"But in this program {'; '.join(reasons)}." if reasons else USUAL_LIMIT


def _of(greeting: Greeting) -> list[Contraindication]:
    return [one for one in CONTRAINDICATIONS if one.module in greeting.libraries]


def _version(text: str) -> tuple[int, int]:
    """(2, 11) for "2.11.0+cu130", (0, 0) if it is not known."""
    numbers = re.match(r"(\d{1,4})\.(\d{1,4})", text)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
