"""Flags of a server as people write them behind `--set`: "max_model_len:131072,kv_cache_dtype:fp8"."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from gputui.errors import UsageError
from gputui.explain.serving.ahead.command_line import FLAGS, Flag, ServeFlags, whole
from gputui.explain.serving.other_flags import CACHE_DTYPES, NAMES, Flags

OF_SERVER = {*NAMES, *(field.name for field in fields(ServeFlags))}
"""All known flags of a server, also those that cannot be tried."""


def _dtype(text: str) -> str:
    if text not in CACHE_DTYPES:
        raise ValueError
    return text


def _true(text: str) -> bool:
    if text.lower() not in ("true", "1"):
        raise ValueError
    return True


_READ = {
    **{name: FLAGS[name] for name in ("gpu_memory_utilization", "block_size", "tensor_parallel_size")},
    "max_model_len": FLAGS["max_model_len"]._replace(read=whole),
    "kv_cache_dtype": Flag(_dtype, f"one of {', '.join(CACHE_DTYPES)}"),
    "enforce_eager": Flag(_true, "tried as true only: what CUDA graphs take is not known before they are captured"),
}
"""Without the max_model_len of `auto`, which is not a length."""


def is_of_server(settings: str) -> bool:
    """Whether these are flags of a server, and not settings of PyTorch's allocator."""
    return any(_name(pair) in OF_SERVER for pair in settings.split(","))


def flags_of(settings: str, device_total_bytes: int | None = None) -> Flags:
    """The flags in "name:value,name:value". Raises UsageError for a flag that cannot be tried, or a wrong value."""
    values: dict[str, Any] = {"device_total_bytes": device_total_bytes}
    for pair in settings.split(","):
        name, text = _name(pair), pair.partition(":")[2].strip()
        if name not in NAMES:
            cause = f"{pair.partition(':')[0].strip()!r} is no flag of a server that can be tried."
            remedy = f"These can: {', '.join(sorted(NAMES))}. Others: `gputui check vllm serve MODEL` with its flags."
            raise UsageError(cause, remedy)
        read, kind = _READ[name]
        try:
            values[name] = read(text)
        except ValueError:
            cause = f"{name} cannot be {text!r}."
            raise UsageError(cause, f"It is {kind}.") from None
    return Flags(**values)


def _name(pair: str) -> str:
    """The name of a flag, which may be written as on a command line: `--max-model-len`."""
    return pair.partition(":")[0].strip().lstrip("-").replace("-", "_")
