"""A Llama of 32 layers and 6.7 billion parameters in bf16, made on the meta device, trained with AdamW."""

import itertools

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def new_llama() -> LlamaForCausalLM:
    with torch.device("meta"):
        model = LlamaForCausalLM(LlamaConfig(num_hidden_layers=32, use_cache=False)).to(torch.bfloat16)
    return model.to_empty(device="cuda")


def main() -> None:
    torch.backends.cudnn.enabled = False  # the fake CUDA runtime has no cuDNN
    torch.backends.cuda.enable_cudnn_sdp(False)
    model = new_llama()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for step in itertools.count():
        tokens = torch.randint(0, 32_000, (1, 512)).to("cuda")
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
