"""GPT-2 trained by the Trainer of transformers."""

from gpt2 import RandomText, new_gpt2
from transformers import Trainer, TrainingArguments


def train(**options: object) -> None:
    arguments = TrainingArguments(
        output_dir="trainer", max_steps=1_000_000, logging_steps=10, save_strategy="no", report_to="none", **options
    )
    trainer = Trainer(model=new_gpt2(), args=arguments, train_dataset=RandomText())
    trainer.train()


def main() -> None:
    train(per_device_train_batch_size=8)


if __name__ == "__main__":
    main()
