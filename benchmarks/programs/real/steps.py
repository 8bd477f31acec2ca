"""What the training loops here share."""

import torch

REPORT_EVERY = 10


def without_cudnn() -> None:
    """Turn off what the fake CUDA runtime does not have."""
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_cudnn_sdp(False)


def update(step: int, loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Finish a step of training."""
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % REPORT_EVERY == 0:
        print(f"step {step} loss {loss.item():.3f}", flush=True)
