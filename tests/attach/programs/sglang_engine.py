"""SGLang with a small Llama that has no weights: prints what the server says of itself, then waits.

The argument is JSON: flags of SGLang. On a fake GPU it serves no request: its layer norms need more of a driver.
"""

import json
import os
import sys

from tests.attach.programs import small_llama

os.environ.update(HF_HUB_OFFLINE="1", SGLANG_DISABLE_TQDM="1")

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

    engine = sglang.Engine(model_path=small_llama.folder(), **FLAGS | json.loads(sys.argv[1]))
    say("started", json.dumps(facts(engine)))
    input()


if __name__ == "__main__":  # its scheduler imports this file
    main()
