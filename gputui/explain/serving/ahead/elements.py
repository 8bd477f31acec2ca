"""How many elements a model's weights have, computed from the sizes in its configuration for each kind of layer."""

from __future__ import annotations

from dataclasses import dataclass

from gputui.explain.serving.ahead.architecture import Architecture

VOCABULARY_MULTIPLE = 64
"""vLLM pads the vocabulary to a multiple of this (VocabParallelEmbedding)."""


@dataclass(frozen=True, slots=True)
class Elements:
    """Elements of the weights on one device. Quantisation makes `linear` and `experts` smaller, and not the others."""

    linear: int
    experts: int
    vocabulary: int
    others: int
    """Those of norms and routers, which every device has in full."""

    @property
    def total(self) -> int:
        """The sum of all four."""
        return self.linear + self.experts + self.vocabulary + self.others


def elements_of(model: Architecture, devices: int) -> Elements:
    """The elements on one of `devices` devices of tensor parallelism."""
    experts, mixed = model.experts, _mixed_layers(model)
    factors = 3 if model.is_gated else 2
    dense = (model.layers - mixed) * factors * model.hidden * -(-model.intermediate // devices)
    shared = mixed * factors * model.hidden * -(-(experts.shared_size if experts else 0) // devices)
    of_experts = mixed * experts.count * factors * model.hidden * -(-experts.size // devices) if experts else 0
    routers = mixed * experts.count * model.hidden if experts else 0
    norms = (2 * model.layers + 1) * model.hidden
    return Elements(
        linear=model.layers * _attention(model, devices) + dense + shared,
        experts=of_experts,
        vocabulary=vocabulary_rows(model, devices) * model.hidden * (1 if model.is_tied else 2),
        others=routers + norms,
    )


def vocabulary_rows(model: Architecture, devices: int) -> int:
    """The rows of the vocabulary on one device, with the padding."""
    return -(-model.vocabulary // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE // devices


def heads_on(model: Architecture, devices: int) -> tuple[int, int]:
    """The heads of queries, and of keys and values, on one device: at least one of each."""
    return max(1, model.heads // devices), max(1, model.kv_heads // devices)


def _mixed_layers(model: Architecture) -> int:
    """How many layers have experts."""
    return max(0, model.layers - model.experts.dense_layers) if model.experts else 0


def _attention(model: Architecture, devices: int) -> int:
    """The elements of one layer's attention."""
    heads, kv_heads = heads_on(model, devices)
    latent, hidden = model.latent, model.hidden
    if latent is None:
        return hidden * model.head_size * (2 * heads + 2 * kv_heads)
    query_size = heads * (latent.nope_size + latent.rope_size)
    queries = latent.query_rank * (hidden + query_size) if latent.query_rank else hidden * query_size
    kept = hidden * (latent.kv_rank + latent.rope_size)
    return (
        queries
        + kept
        + heads * latent.kv_rank * (latent.nope_size + latent.value_size)
        + heads * latent.value_size * hidden
    )
