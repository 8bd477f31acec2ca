"""GPT-2 generating text, token after token, with a cache of keys and values: without end, or so many batches."""

import contextlib
import sys

import torch
from gpt2 import VOCABULARY, new_gpt2

NEW_TOKENS = 512


class EnoughError(Exception):
    """All tokens were made: on a fake GPU, which computes nothing, no value says so."""


class Counted:
    """Ends a batch after its tokens."""

    def __init__(self) -> None:
        self._passes = 0

    def __call__(self, *_: object) -> None:
        self._passes += 1
        if self._passes % NEW_TOKENS == 0:
            raise EnoughError


@torch.no_grad()
def main() -> None:
    model = new_gpt2().to("cuda").eval()
    if sys.argv[1:]:
        model.register_forward_hook(Counted())
    for number in range(int(sys.argv[1]) if sys.argv[1:] else sys.maxsize):
        prompt = torch.randint(0, VOCABULARY, (16, 128)).to("cuda")
        with contextlib.suppress(EnoughError):
            model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=NEW_TOKENS, pad_token_id=0)
        print(f"batch {number}", flush=True)


if __name__ == "__main__":
    main()
