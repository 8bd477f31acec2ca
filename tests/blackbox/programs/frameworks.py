"""A GPT-2 that runs out of memory under a framework:  frameworks.py FRAMEWORK PHASE"""

from __future__ import annotations

import os
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

import gputui.probe  # noqa: F401 - it keeps black boxes where the environment says so

if "GPUTUI_BLACK_BOX" in os.environ:  # what is tested is not how fast a busy machine is
    from gputui.probe.black_box import error_look, observer

    observer.STOP_S, observer.ALWAYS_S, error_look.READING_MS = 30.0, 120.0, 20_000.0
torch.backends.cudnn.enabled = False
torch.backends.cuda.enable_cudnn_sdp(False)
torch.manual_seed(0)
logging.set_verbosity_error()
hog = []


def fill(*_: object) -> None:
    """Take all of the device's memory but a MiB."""
    torch.cuda.empty_cache()
    free_bytes = torch.cuda.mem_get_info()[0]
    hog.append(torch.empty(free_bytes - (1 << 20), dtype=torch.uint8, device="cuda"))


def new_model(phase: str) -> GPT2LMHeadModel:
    """A model whose memory ends in this phase of its first step."""
    model = GPT2LMHeadModel(GPT2Config(n_layer=6, n_embd=768, n_head=4, vocab_size=512))
    if phase == "forward":
        model.transformer.h[3].register_forward_pre_hook(fill)
    elif phase == "backward":
        model.register_forward_hook(lambda _model, _inputs, output: output.logits.register_hook(fill) and None)
    else:  # the gradient of the embedding is the last
        model.transformer.wte.weight.register_post_accumulate_grad_hook(fill)
    return model


class Text(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        ids = torch.arange(512)
        return {"input_ids": ids, "labels": ids}


def trainer(phase: str) -> None:
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        output_dir="out", per_device_train_batch_size=8, max_steps=3, save_strategy="no", report_to="none",
        disable_tqdm=True,
    )  # fmt: skip
    training = Trainer(model=new_model(phase), args=arguments, train_dataset=Text())
    training.train()  # trains: trainer


def lightning(phase: str) -> None:
    import lightning

    class Language(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = new_model(phase)

        def training_step(self, batch: dict[str, torch.Tensor], _index: int) -> torch.Tensor:
            return self.model(**batch).loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters())

    training = lightning.Trainer(
        accelerator="gpu", devices=1, max_steps=3, logger=False, enable_checkpointing=False, gradient_clip_val=1.0,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    training.fit(Language(), torch.utils.data.DataLoader(Text(), batch_size=8))  # trains: lightning


def accelerate(phase: str) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator()
    model = new_model(phase)
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer, batches = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(Text(), batch_size=8))

    def train() -> None:
        for batch in batches:
            accelerator.backward(model(**batch).loss)
            optimizer.step()
            optimizer.zero_grad()

    train()  # trains: accelerate


def peft(phase: str) -> None:
    """A LoRA, whose optimizer keeps next to nothing: it fails before."""
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(new_model(phase), LoraConfig(target_modules=["c_attn"])).cuda()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])

    def train() -> None:
        for batch in torch.utils.data.DataLoader(Text(), batch_size=8):
            model(**{name: rows.cuda() for name, rows in batch.items()}).loss.backward()
            optimizer.step()

    train()  # trains: peft


FRAMEWORKS = {framework.__name__: framework for framework in (trainer, lightning, accelerate, peft)}
FRAMEWORKS[sys.argv[1]](sys.argv[2])
