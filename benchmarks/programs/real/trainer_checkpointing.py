"""GPT-2 trained by the Trainer of transformers with activation checkpointing, gradient accumulation and bf16."""

from trainer import train


def main() -> None:
    train(per_device_train_batch_size=4, gradient_accumulation_steps=4, gradient_checkpointing=True, bf16=True)


if __name__ == "__main__":
    main()
