"""GPT-2 generating text, token after token, with a cache of keys and values: without end, or so many batches."""

import sys

import torch
from gpt2 import VOCABULARY, new_gpt2


@torch.no_grad()
def main() -> None:
    model = new_gpt2().to("cuda").eval()
    for number in range(int(sys.argv[1]) if sys.argv[1:] else sys.maxsize):
        prompt = torch.randint(0, VOCABULARY, (16, 128)).to("cuda")
        text = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=512, pad_token_id=0)
        print(f"batch {number}: {text.shape[1]} tokens", flush=True)


if __name__ == "__main__":
    main()
