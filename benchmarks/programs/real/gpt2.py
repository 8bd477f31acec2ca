"""What several programs here train: a GPT-2 of 6 layers with random weights, and random text."""

import time

import torch
from steps import without_cudnn
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel

VOCABULARY = 50257
READ_S = 0.005
"""How long reading a sample takes, so that a step takes about as long as on a GPU."""


def new_gpt2() -> GPT2LMHeadModel:
    """The model on the host, 82 million parameters."""
    without_cudnn()
    return GPT2LMHeadModel(GPT2Config(n_layer=6, vocab_size=VOCABULARY))


class RandomText(Dataset):
    """Samples of `tokens` random tokens, which are their own labels."""

    def __init__(self, tokens: int = 256) -> None:
        self.tokens = tokens

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        time.sleep(READ_S)
        ids = torch.randint(0, VOCABULARY, (self.tokens,))
        return {"input_ids": ids, "labels": ids}
