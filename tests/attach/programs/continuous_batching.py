"""Requests in transformers' continuous batching, with a small Llama; paused, it says what it has itself."""

import json
import sys

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

import gputui.probe  # noqa: F401

torch.backends.cuda.enable_cudnn_sdp(False)
LAYERS = 6
SIZES = {
    "vocab_size": 1000, "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 8,
    "num_key_value_heads": 4, "num_hidden_layers": LAYERS, "max_position_embeddings": 100_000,
}  # fmt: skip
PROMPTS = 300, 700, 900
"""Tokens of each request: a block has room for 256."""


def facts(processor):
    """What the engine says itself."""
    (allocator,) = processor.cache.cache_allocators.values()
    held = {block for blocks in allocator.block_table.values() for block in blocks}
    return {
        "blocks": processor.cache.num_blocks,
        "block_bytes": allocator.bytes_per_block,
        "blocks_in_use": len(held),
        "prefix_blocks": len(allocator.ledger.hash_to_block),
        "running": len(processor.scheduler.active_requests),
        "waiting": len(processor.scheduler.waiting_requests),
        "longest_tokens": max(r.position_offset for r in processor.scheduler.active_requests.values()),
        "mask_bytes": sum(mask.nbytes for mask in processor.inputs_and_outputs.attention_mask.values()),
        "cache_bytes": processor.cache.cache_tensor.nbytes,
    }


def main():
    model = LlamaForCausalLM(LlamaConfig(**SIZES)).half().cuda().eval()
    model.set_attn_implementation("sdpa")
    config = GenerationConfig(do_sample=False, eos_token_id=-1, pad_token_id=2)
    manager = model.init_continuous_batching(generation_config=config)
    manager.start()
    for number, length in enumerate(PROMPTS):
        prompt = [1 + (number + place) % 900 for place in range(length)]
        manager.add_request(prompt, max_new_tokens=50_000, streaming=True)
    for _ in PROMPTS:
        manager.get_result()
    manager.background_thread_status.acquire_pause(manager._wake_up_loop)
    sys.stdout.write(f"serving {json.dumps(facts(manager.batch_processor))}\n")
    sys.stdout.flush()
    input()


main()
