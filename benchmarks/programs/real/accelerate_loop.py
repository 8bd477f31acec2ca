"""GPT-2 trained in a plain loop with accelerate."""

import torch
from accelerate import Accelerator
from gpt2 import RandomText, new_gpt2
from torch.utils.data import DataLoader


def train(accelerator: Accelerator) -> None:
    model = new_gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 100))
    loader = DataLoader(RandomText(), batch_size=8)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    for step, batch in enumerate(loader):
        loss = model(**batch).loss
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        if step % 10 == 0:
            accelerator.print(f"step {step} loss {loss.item():.3f}", flush=True)


def main() -> None:
    train(Accelerator(mixed_precision="bf16"))


if __name__ == "__main__":
    main()
