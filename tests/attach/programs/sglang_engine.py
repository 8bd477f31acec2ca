"""SGLang with a small Llama that has no weights: prints what the server says of itself, then waits.

The argument is JSON: flags of SGLang. On a fake GPU it serves no request: its layer norms need more of a driver.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", SGLANG_DISABLE_TQDM="1")

MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024,
    "num_attention_heads": 8, "num_key_value_heads": 4, "num_hidden_layers": 6, "vocab_size": 32000,
    "max_position_embeddings": 16384, "rms_norm_eps": 1e-5, "torch_dtype": "float16", "hidden_act": "silu",
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
FLAGS = {
    "load_format": "dummy", "skip_tokenizer_init": True, "disable_cuda_graph": True, "mem_fraction_static": 0.5,
    "attention_backend": "torch_native", "sampling_backend": "pytorch", "dtype": "float16", "context_length": 4096,
    "log_level": "error",
}  # fmt: skip


def say(*words):
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def facts(engine):
    """What the server says itself."""
    told = engine.get_server_info()
    return {"tokens": told["max_total_num_tokens"], "memory": told["internal_states"][0].get("memory_usage")}


def main():
    import sglang

    folder = tempfile.mkdtemp(prefix="sglang-model-")
    Path(folder, "config.json").write_text(json.dumps(MODEL))
    engine = sglang.Engine(model_path=folder, **FLAGS | json.loads(sys.argv[1]))
    say("started", json.dumps(facts(engine)))
    input()


if __name__ == "__main__":  # its scheduler imports this file
    main()
