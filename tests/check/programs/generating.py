"""Two texts of 12 tokens by a small model, with and without beams: no value says whether one ends before."""

import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

config = GPT2Config(n_layer=2, n_embd=64, n_head=2, vocab_size=100, n_positions=16, attn_implementation="eager")
model = GPT2LMHeadModel(config).to("cuda").eval()
prompt = torch.ones(2, 4, dtype=torch.long, device="cuda")
for beams in (1, 2):
    text = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=8, num_beams=beams, pad_token_id=0
    )
    sys.stderr.write(f"{beams} beams: {text.shape[1]} tokens\n")
