"""A Llama of 32 layers and 6.7 billion parameters in bf16, made on the meta device, trained with AdamW."""

import itertools

import torch
from steps import update, without_cudnn
from transformers import LlamaConfig, LlamaForCausalLM


def new_llama() -> LlamaForCausalLM:
    with torch.device("meta"):
        model = LlamaForCausalLM(LlamaConfig(num_hidden_layers=32, use_cache=False)).to(torch.bfloat16)
    return model.to_empty(device="cuda")


def main() -> None:
    without_cudnn()
    model = new_llama()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for step in itertools.count():
        tokens = torch.randint(0, 32_000, (1, 512)).to("cuda")
        loss = model(input_ids=tokens, labels=tokens).loss
        update(step, loss, optimizer)


if __name__ == "__main__":
    main()
