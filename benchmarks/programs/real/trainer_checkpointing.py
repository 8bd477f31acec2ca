"""GPT-2 trained by the Trainer of transformers with activation checkpointing, gradient accumulation and bf16."""

from gpt2 import RandomText, new_gpt2
from transformers import Trainer, TrainingArguments


def main() -> None:
    arguments = TrainingArguments(
        output_dir="trainer_checkpointing",
        per_device_train_batch_size=4,
        gradient_accumulation_steps=4,
        gradient_checkpointing=True,
        bf16=True,
        max_steps=1_000_000,
        logging_steps=10,
        save_strategy="no",
        report_to="none",
    )
    trainer = Trainer(model=new_gpt2(), args=arguments, train_dataset=RandomText())
    trainer.train()


if __name__ == "__main__":
    main()
