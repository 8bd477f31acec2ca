"""A small UNet with residual blocks, attention and skip connections, as people write them."""

import torch
from torch import nn
from torch.nn import functional


class Residual(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, inputs), nn.GroupNorm(4, outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.shortcut = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x):
        hidden = self.conv1(functional.silu(self.norm1(x)))
        return self.shortcut(x) + self.conv2(functional.silu(self.norm2(hidden)))


class Attention(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(4, channels)
        self.qkv, self.out = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)

    def forward(self, x):
        batch, channels, height, width = x.shape
        tokens = self.norm(x).flatten(2).transpose(1, 2)
        q, k, v = self.qkv(tokens).chunk(3, -1)
        mixed = torch.softmax(q @ k.transpose(-1, -2) / channels**0.5, -1) @ v
        return x + self.out(mixed).transpose(1, 2).reshape(batch, channels, height, width)


class UNet(nn.Module):
    def __init__(self, channels=(16, 32, 64)):
        super().__init__()
        self.stem = nn.Conv2d(3, channels[0], 3, padding=1)
        pairs = [(channels[max(0, place - 1)], outputs) for place, outputs in enumerate(channels)]
        self.down = nn.ModuleList(Residual(inputs, outputs) for inputs, outputs in pairs)
        self.shrink = nn.ModuleList(nn.Conv2d(outputs, outputs, 3, stride=2, padding=1) for outputs in channels)
        self.middle = nn.Sequential(Residual(channels[-1], channels[-1]), Attention(channels[-1]))
        self.up = nn.ModuleList(Residual(2 * outputs, inputs) for inputs, outputs in reversed(pairs))
        self.head = nn.Sequential(nn.GroupNorm(4, channels[0]), nn.SiLU(), nn.Conv2d(channels[0], 3, 3, padding=1))

    def forward(self, x):
        x, skips = self.stem(x), []
        for level, block in enumerate(self.down):
            x = block(x)
            skips.append(x)
            x = self.shrink[level](x)
        x = self.middle(x)
        for block in self.up:
            x = functional.interpolate(x, scale_factor=2)
            x = block(torch.cat([x, skips.pop()], 1))
        return self.head(x)
