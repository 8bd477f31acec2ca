"""A terminal monitor for NVIDIA GPUs that also sees inside PyTorch."""

__version__ = "0.1.0"
