"""A small Llama of which only the configuration is there, for servers that make up its weights."""

import json
import tempfile
from pathlib import Path

MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024,
    "num_attention_heads": 8, "num_key_value_heads": 4, "num_hidden_layers": 6, "vocab_size": 32000,
    "max_position_embeddings": 16384, "rms_norm_eps": 1e-5, "torch_dtype": "float16", "hidden_act": "silu",
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def folder(model=MODEL, at=""):
    """A folder with the configuration, as a model of Hugging Face's; a new one, or `at`."""
    made = Path(at or tempfile.mkdtemp(prefix="small-llama-"))
    made.mkdir(exist_ok=True)
    (made / "config.json").write_text(json.dumps(model))
    return str(made)
