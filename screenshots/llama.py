"""The sizes of Llama 3.1 8B, for servers that are recorded: they make up its weights."""

from __future__ import annotations

import json
from pathlib import Path

MODEL = "Llama-3.1-8B"
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16", "hidden_act": "silu",
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def folder() -> str:
    """A folder with its configuration, below the current one."""
    Path(MODEL).mkdir(exist_ok=True)
    Path(MODEL, "config.json").write_text(json.dumps(LLAMA))
    return MODEL
