"""GPT-2 trained by Lightning."""

import lightning
import torch
from gpt2 import RandomText, new_gpt2
from torch.utils.data import DataLoader


class LanguageModel(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = new_gpt2()

    def training_step(self, batch: dict[str, torch.Tensor], _index: int) -> torch.Tensor:
        loss = self.model(**batch).loss
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=3e-4)


def main() -> None:
    trainer = lightning.Trainer(
        accelerator="gpu",
        devices=1,
        max_steps=1_000_000,
        logger=False,
        enable_checkpointing=False,
        gradient_clip_val=1.0,
    )
    trainer.fit(LanguageModel(), DataLoader(RandomText(), batch_size=8))


if __name__ == "__main__":
    main()
