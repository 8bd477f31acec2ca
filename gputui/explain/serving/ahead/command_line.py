"""The command line of `vllm serve`: the flags that decide how much memory a server takes, and the names of others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gputui.errors import UsageError

LARGEST = 1 << 40
FITTED = 0
"""The max_model_len of `auto` and `-1`: vLLM takes the longest that fits."""
_WHOLE = re.compile(r"(\d{1,13}(?:\.\d{1,6})?)([kKmMgGtT]?)")
_STEPS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
"""As vLLM reads them: 32k is 32,000 tokens, and 32K is 32,768."""


@dataclass(frozen=True, slots=True)
class ServeFlags:
    """The flags of a command line, by vLLM's names; None where a flag is not given.

    The figures do not consider `apart` and `others`: `apart` are the given flags in `APART`, `others` all the rest.
    """

    model: str = ""
    tensor_parallel_size: int = 1
    gpu_memory_utilization: float | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    block_size: int | None = None
    kv_cache_dtype: str | None = None
    kv_cache_memory_bytes: int | None = None
    quantization: str | None = None
    dtype: str | None = None
    revision: str | None = None
    enforce_eager: bool = False
    apart: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def whole(text: str) -> int:
    """A number as vLLM reads it: 32768, 32k, 32K. Raises ValueError."""
    match = _WHOLE.fullmatch(text.replace("_", ""))
    value = int(float(match[1]) * _STEPS[match[2]]) if match else 0
    if not match or not 0 < value <= LARGEST:
        raise ValueError(text)
    return value


def _length(text: str) -> int:
    return FITTED if text in ("auto", "-1") else whole(text)


def _count(text: str) -> int:
    value = int(text) if text.isdecimal() and len(text) <= 6 else 0
    if value < 1:
        raise ValueError(text)
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise ValueError(text)
    return value


def _word(text: str) -> str:
    if not re.fullmatch(r"[\w.\-]{1,60}", text):
        raise ValueError(text)
    return text.lower()


def _name(text: str) -> str:
    if not text:
        raise ValueError(text)
    return text


class Flag(NamedTuple):
    """How a flag's value is read (`read` raises ValueError), and what it is."""

    read: Callable[[str], Any]
    form: str


_TOKENS, _NUMBER = "a number of tokens, such as 32768 or 32K", "a number, such as 2"
FLAGS = {
    "model": Flag(_name, "a folder, or a name such as org/model"),
    "tensor_parallel_size": Flag(_count, _NUMBER),
    "gpu_memory_utilization": Flag(_share, "a share of the device, such as 0.9"),
    "max_model_len": Flag(_length, _TOKENS),
    "max_num_seqs": Flag(whole, "a number of requests, such as 256"),
    "max_num_batched_tokens": Flag(whole, _TOKENS),
    "block_size": Flag(_count, "a number of tokens, such as 16"),
    "kv_cache_dtype": Flag(_word, "auto, fp8, bfloat16 or float16"),
    "kv_cache_memory_bytes": Flag(whole, "a number of bytes, such as 20G"),
    "quantization": Flag(_word, "a name, such as fp8"),
    "dtype": Flag(_word, "auto, bfloat16, float16 or float32"),
    "revision": Flag(_name, "a branch or a commit"),
}
"""The flags with a value that the figures consider."""
SHORT = {"tp": "tensor_parallel_size", "pp": "pipeline_parallel_size", "q": "quantization", "dp": "data_parallel_size",
         "dcp": "decode_context_parallel_size"}  # fmt: skip
APART = frozenset(
    {
        "cpu_offload_gb", "enable_lora", "speculative_config", "data_parallel_size", "hf_overrides", "config",
        "decode_context_parallel_size", "limit_mm_per_prompt", "compilation_config", "enable_expert_parallel",
        "num_gpu_blocks_override", "enable_sleep_mode", "pipeline_parallel_size",
    }
)  # fmt: skip
"""Flags that change the memory, and that the figures do not consider: `ServeFlags.apart`."""
SWITCHES = re.compile(
    r"(?!log_config_file|disable_access_log_for_endpoints)"
    r"(?:(?:no|enable|disable|trust|use|return|calculate|async|skip|log)_.*|enforce_eager|headless)"
)
"""Names of flags without a value, most by how they begin, but for two that begin so and have one."""


def serve_flags(words: Sequence[str]) -> ServeFlags:
    """The flags in the words behind `vllm serve`. Raises UsageError for a wrong value, or where no model is named."""
    values: dict[str, Any] = {}
    apart: list[str] = []
    others: list[str] = []
    for name, text in _pairs(words):
        if name == "":
            if "model" in values:
                cause = f"vllm serve takes one model: {values['model']} or {text}?"
                raise UsageError(cause, "See gputui check vllm serve --help.")
            values["model"] = text
        elif name in FLAGS:
            values[name] = _read(name, text)
        elif name in ("enforce_eager", "no_enforce_eager"):
            values["enforce_eager"] = name == "enforce_eager"
        else:
            (apart if name in APART else others).append(f"--{name.replace('_', '-')}")
    if "model" not in values:
        cause = "vllm serve needs a model."
        raise UsageError(cause, "Name a folder with its config.json, or a model in the cache of Hugging Face's hub.")
    return ServeFlags(**values, apart=tuple(dict.fromkeys(apart)), others=tuple(dict.fromkeys(others)))


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Flags by name with their values; the name is "" for a word that belongs to no flag."""
    rest, has_model = list(words), False
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            has_model = True
            yield "", word
            continue
        flag, sign, text = word.partition("=")
        bare = flag.lstrip("-").replace("-", "_")
        name = SHORT.get(bare, bare) if not flag.startswith("--") else bare
        if name in FLAGS:
            if not sign and not rest:
                cause = f"{flag} needs a value."
                raise UsageError(cause, f"It is {FLAGS[name].form}.")
            has_model = has_model or name == "model"
            yield name, text if sign else rest.pop(0)
        else:
            takes_more = not sign and not SWITCHES.fullmatch(name)
            while takes_more and rest and not rest[0].startswith("-"):
                text, takes_more = rest.pop(0), has_model  # of a list of values; a word before the model may be it
            yield name, text


def _read(name: str, text: str) -> object:
    try:
        return FLAGS[name].read(text)
    except ValueError:
        cause = f"--{name.replace('_', '-')} cannot be {text[:60]!r}."
        raise UsageError(cause, f"It is {FLAGS[name].form}.") from None
