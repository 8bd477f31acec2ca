"""Exporters of fake GPUs, and interpreters with PyTorch on them."""

from tests.attach.conftest import cuda_python, sockets

__all__ = ["cuda_python", "sockets"]
