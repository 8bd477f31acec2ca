"""A UNet of diffusers, trained to remove noise, with a moving average (EMA) of its weights on the device."""

import itertools

import torch
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.training_utils import EMAModel
from steps import update, without_cudnn
from torch.nn import functional


def main() -> None:
    without_cudnn()
    unet = UNet2DModel(
        sample_size=64,
        layers_per_block=2,
        block_out_channels=(128, 128, 256, 256, 512, 512),
        down_block_types=("DownBlock2D",) * 4 + ("AttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "AttnUpBlock2D") + ("UpBlock2D",) * 4,
    ).to("cuda")
    ema = EMAModel(unet.parameters())
    ema.to("cuda")
    scheduler = DDPMScheduler(num_train_timesteps=1000)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-4)
    for step in itertools.count():
        images = torch.rand(8, 3, 64, 64).to("cuda")
        noise = torch.randn(images.shape, device="cuda")
        times = torch.randint(0, 1000, (8,), device="cuda")
        predicted = unet(scheduler.add_noise(images, noise, times), times).sample
        loss = functional.mse_loss(predicted, noise)
        update(step, loss, optimizer)
        ema.step(unet.parameters())


if __name__ == "__main__":
    main()
