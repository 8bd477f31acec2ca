"""Interpreters into which the probe is put; their programs find no gputui of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import torches
from tests.attach.children import Python
from tests.attach.conftest import pytest_generate_tests, sockets

__all__ = ["pytest_generate_tests", "python", "sockets", "torch_python"]


def unprepared(path: str, folder: Path, environment: dict[str, str]) -> Iterator[Python]:
    python = Python(path, folder, {**environment, "PYTHONPATH": ""})
    yield python
    python.end()


@pytest.fixture
def python(python_path: str, tmp_path: Path, sockets: Path) -> Iterator[Python]:
    """A Python without PyTorch."""
    yield from unprepared(python_path, tmp_path, {})


@pytest.fixture
def torch_python(torch_path: str, tmp_path: Path, sockets: Path) -> Iterator[Python]:
    """A Python with PyTorch, on fake GPUs if it is a CUDA build."""
    yield from unprepared(torch_path, tmp_path, torches.fake_cuda(torch_path, tmp_path))
