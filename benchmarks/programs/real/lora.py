"""GPT-2 fine-tuned with LoRA adapters of peft."""

import torch
from gpt2 import RandomText, new_gpt2
from peft import LoraConfig, get_peft_model
from steps import update
from torch.utils.data import DataLoader


def main() -> None:
    config = LoraConfig(r=16, lora_alpha=32, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True)
    model = get_peft_model(new_gpt2(), config).to("cuda")
    model.print_trainable_parameters()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    for step, batch in enumerate(DataLoader(RandomText(), batch_size=8)):
        loss = model(**{name: values.to("cuda") for name, values in batch.items()}).loss
        update(step, loss, optimizer)


if __name__ == "__main__":
    main()
