"""Llama 3.1 8B as servers that are recorded have it: they make up its weights."""

from __future__ import annotations

from tests.attach.programs import small_llama

SIZES = {
    "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 32,
    "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
}  # fmt: skip


def folder() -> str:
    """A folder with its configuration, below the current one."""
    return small_llama.folder(small_llama.MODEL | SIZES, "Llama-3.1-8B")
