"""The sizes of a language model, from its configuration: layers, heads, experts, windows.

The names of the keys are those of Hugging Face's transformers; they differ from model to model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gputui.errors import GputuiError

LARGEST = 1 << 31
"""A larger size in a configuration is refused."""
LAYERS_AT_MOST = 10_000

KEYS = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "multi_query_group_num"),
    "head_size": ("head_dim",),
    "intermediate": ("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"),
    "vocabulary": ("vocab_size", "padded_vocab_size"),
    "longest": ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length"),
    "experts": ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"),
    "experts_of_token": ("num_experts_per_tok", "num_experts_per_token", "moe_top_k", "top_k_experts"),
    "expert_size": ("moe_intermediate_size", "expert_ffn_hidden_size"),
    "shared_size": ("shared_expert_intermediate_size",),
    "shared_experts": ("n_shared_experts", "moe_num_shared_experts"),
    "dense_layers": ("first_k_dense_replace", "moe_layer_start_index"),
    "kv_rank": ("kv_lora_rank",),
    "query_rank": ("q_lora_rank",),
    "rope_size": ("qk_rope_head_dim",),
    "nope_size": ("qk_nope_head_dim",),
    "value_size": ("v_head_dim",),
    "window": ("sliding_window", "sliding_window_size"),
}
"""The keys of each size; the first one that a configuration has counts."""

DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "gemma2": {"sliding_window_pattern": 2},
    "gemma3_text": {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "sliding_window_pattern": 6,
                    "vocab_size": 262_208, "max_position_embeddings": 131_072},
    "gpt_oss": {"sliding_window_pattern": 2},
    "cohere2": {"sliding_window_pattern": 4},
}  # fmt: skip
"""Values that transformers' classes take where a configuration says nothing, by model_type."""
TIED = frozenset({"gemma", "gemma2", "gemma3_text", "gpt2", "opt", "bloom", "cohere", "cohere2"})
"""Models whose input embedding and output head are one matrix where a configuration does not say it."""

UNGATED = frozenset({"gpt2", "gpt_neox", "gptj", "opt", "bloom", "falcon", "phi", "starcoder2", "mpt", "nemotron"})
"""Models whose feed-forward layers have two matrices instead of three."""
STATEFUL = frozenset({"mamba", "linear_attention", "recurrent"})
"""Kinds of layers that keep a state of fixed size for each request, and no keys and values."""
STATES = ("mamba_d_state", "ssm_state_size", "state_size", "mamba_num_heads", "linear_num_value_heads")
WINDOWED = frozenset({"sliding_attention", "local_attention", "local"})
ALREADY_STRETCHED = frozenset({"su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling"})
"""Kinds of rotary positions whose factor max_position_embeddings already includes."""
UNKNOWN_CACHES = ("index_topk", "compress_ratios", "attention_chunk_size", "num_kv_shared_layers")
"""Keys of models whose caches have parts that gputui does not count."""


@dataclass(frozen=True, slots=True)
class Experts:
    """`of_token` experts compute a token; `shared_size` is the inner size of those for all tokens together."""

    count: int
    of_token: int
    size: int
    shared_size: int
    dense_layers: int


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention: the cache keeps `kv_rank` + `rope_size` numbers of a token, for all heads."""

    kv_rank: int
    query_rank: int
    rope_size: int
    nope_size: int
    value_size: int


@dataclass(frozen=True, slots=True)
class Architecture:
    """A decoder's sizes. `windows` has the sliding window in tokens of each layer with a cache, None for no window.

    `layers` also counts those without a cache, which keep a state.
    """

    kind: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    longest: int | None
    dtype: str
    windows: tuple[int | None, ...]
    is_tied: bool
    is_gated: bool
    experts: Experts | None
    latent: Latent | None
    quantization: Mapping[str, Any]
    doubts: tuple[str, ...]


def architecture_of(configuration: Mapping[str, Any], name: str) -> Architecture:
    """The sizes in a config.json. Raises GputuiError for a key that is missing or cannot be, or without a KV cache."""
    said = _text_model(configuration)
    text = {**DEFAULTS.get(str(said.get("model_type")), {}), **said}
    read = _Reader(text, name)
    heads, hidden = read.size("heads"), read.size("hidden")
    layers = read.size("layers", most=LAYERS_AT_MOST)
    kind = str(text.get("model_type") or configuration.get("model_type") or "")[:40]
    windows = _windows(read, text, layers)
    if not windows:
        cause = f"No layer of {name} has a KV cache."
        raise GputuiError(cause, "This works for models with attention in some of their layers.")
    tied = text.get("tie_word_embeddings", configuration.get("tie_word_embeddings"))
    return Architecture(
        kind=kind,
        layers=layers,
        hidden=hidden,
        intermediate=read.size("intermediate", 4 * hidden),
        heads=heads,
        kv_heads=_kv_heads(read, text, heads),
        head_size=read.size("head_size", max(1, hidden // heads)),
        vocabulary=read.size("vocabulary"),
        longest=_longest(read, text),
        dtype=_dtype(text, configuration),
        windows=windows,
        is_tied=tied if isinstance(tied, bool) else kind in TIED,
        is_gated=kind not in UNGATED,
        experts=_experts(read),
        latent=_latent(read),
        quantization=_quantization(configuration, text),
        doubts=_doubts(configuration, text),
    )


class _Reader:
    """Reads sizes by the names of `KEYS`; raises GputuiError for a value that is no whole number within bounds."""

    def __init__(self, text: Mapping[str, Any], name: str) -> None:
        self._text, self._name = text, name

    def size(self, field: str, default: int | None = None, most: int = LARGEST) -> int:
        """A size of at least 1; raises GputuiError without one, unless there is a default."""
        value = self.optional(field, most)
        if value is None and default is None:
            cause = f"config.json of {self._name} has no {KEYS[field][0]}, and what its class takes then is not known."
            raise GputuiError(cause, "This works for models that generate text.")
        return value if value is not None else default or 1

    def optional(self, field: str, most: int = LARGEST) -> int | None:
        """A size of at least 1; None where it is missing, null or 0."""
        value = next((self._text[key] for key in KEYS[field] if self._text.get(key) is not None), None)
        if value is None or value == 0:
            return None
        if type(value) is not int or not 0 < value <= most:
            key = next(key for key in KEYS[field] if self._text.get(key) is not None)
            cause = f"config.json of {self._name} has a {key} that cannot be: {str(value)[:40]}."
            raise GputuiError(cause, "Fetch the model's files again.")
        return value


def _text_model(configuration: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of the language model, which a model for images or audio nests in its own."""
    names = ("text_config", "llm_config", "language_config")
    nested = (configuration.get(name) for name in names)
    return next((found for found in nested if isinstance(found, Mapping)), configuration)


def _longest(read: _Reader, text: Mapping[str, Any]) -> int | None:
    """The length in tokens that a model was made for, times the factor of rotary positions that are stretched."""
    length, rope = read.optional("longest"), text.get("rope_scaling") or text.get("rope_parameters")
    if length is None or not isinstance(rope, Mapping) or "gemma3" in str(text.get("model_type")):
        return length
    factor = rope.get("factor")
    is_stretched = str(rope.get("rope_type") or rope.get("type")) not in ALREADY_STRETCHED
    return int(length * factor) if is_stretched and isinstance(factor, (int, float)) and 1 <= factor <= 1024 else length


def _kv_heads(read: _Reader, text: Mapping[str, Any], heads: int) -> int:
    if text.get("multi_query") is True and not text.get("new_decoder_architecture"):
        return 1
    return read.size("kv_heads", heads)


def _dtype(text: Mapping[str, Any], configuration: Mapping[str, Any]) -> str:
    """The data type of the weights, "" where the configuration does not say it."""
    values = (source.get(key) for source in (text, configuration) for key in ("dtype", "torch_dtype"))
    found = next((value for value in values if isinstance(value, str)), "")
    return found.removeprefix("torch.")[:20]


def _windows(read: _Reader, text: Mapping[str, Any], layers: int) -> tuple[int | None, ...]:
    """The sliding window of each layer that keeps keys and values."""
    window = read.optional("window") if text.get("use_sliding_window") is not False else None
    kinds = text.get("layer_types")
    if isinstance(kinds, list) and 0 < len(kinds) <= LAYERS_AT_MOST:
        kept = [kind for kind in map(str, kinds[:layers]) if kind not in STATEFUL]
        return tuple(window if kind in WINDOWED else None for kind in kept)
    pattern = text.get("sliding_window_pattern")
    if window and type(pattern) is int and pattern > 1:
        return tuple(None if (layer + 1) % pattern == 0 else window for layer in range(layers))
    return (window,) * layers


def _experts(read: _Reader) -> Experts | None:
    count = read.optional("experts")
    if count is None or count < 2:
        return None
    size = read.optional("expert_size") or read.size("intermediate")
    shared = read.optional("shared_size") or size * (read.optional("shared_experts") or 0)
    return Experts(count, read.size("experts_of_token", 2), size, shared, read.optional("dense_layers") or 0)


def _latent(read: _Reader) -> Latent | None:
    rank, rope = read.optional("kv_rank"), read.optional("rope_size")
    if rank is None or rope is None:
        return None
    return Latent(
        rank, read.optional("query_rank") or 0, rope, read.size("nope_size", 128), read.size("value_size", 128)
    )


def _quantization(*sources: Mapping[str, Any]) -> Mapping[str, Any]:
    found = (source.get(key) for source in sources for key in ("quantization_config", "compression_config"))
    return next((one for one in found if isinstance(one, Mapping)), {})


def _doubts(configuration: Mapping[str, Any], text: Mapping[str, Any]) -> tuple[str, ...]:
    """Sentences about the parts of a model that the figures leave out."""
    kinds = text.get("layer_types")
    states = isinstance(kinds, list) and not STATEFUL.isdisjoint(kind for kind in kinds if isinstance(kind, str))
    doubts = []
    if states or any(text.get(key) for key in STATES):
        doubts.append(
            "Some of its layers keep a state for each request (Mamba, linear attention), which is not counted."
        )
    if found := [key for key in UNKNOWN_CACHES if text.get(key)]:
        doubts.append(f"Its cache has parts that are not counted ({', '.join(found)}).")
    if any(isinstance(configuration.get(key), Mapping) for key in ("vision_config", "audio_config")):
        doubts.append("It also sees or hears: the activations of that are not counted; the profiling run has them.")
    return tuple(doubts)
