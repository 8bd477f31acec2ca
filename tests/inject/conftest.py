"""Interpreters into which the probe is put; their programs find no gputui of their own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import torches
from tests.attach.children import Python
from tests.attach.conftest import python_paths, sockets, with_paths

__all__ = ["python", "sockets", "torch_python"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "python_path" in metafunc.fixturenames:
        paths = python_paths()
        with_paths(metafunc, list(filter(is_stopped, paths)) if "stopped_python" in metafunc.fixturenames else paths)


def is_stopped(path: str) -> bool:
    code = "import sys; sys.exit(sys.version_info >= (3, 14))"
    return subprocess.run([path, "-c", code], check=False).returncode == 0


def unprepared(path: str, folder: Path, environment: dict[str, str]) -> Iterator[Python]:
    python = Python(path, folder, {**environment, "PYTHONPATH": ""})
    yield python
    python.end()


@pytest.fixture
def python(python_path: str, tmp_path: Path, sockets: Path) -> Iterator[Python]:
    """A Python without PyTorch."""
    yield from unprepared(python_path, tmp_path, {})


@pytest.fixture
def stopped_python(python: Python) -> Python:
    """A Python that is stopped to put the probe in: 3.14 takes it by itself, whatever forbids a stop."""
    return python


@pytest.fixture
def torch_python(torch_path: str, tmp_path: Path, sockets: Path) -> Iterator[Python]:
    """A Python with PyTorch, on fake GPUs if it is a CUDA build."""
    yield from unprepared(torch_path, tmp_path, torches.fake_cuda(torch_path, tmp_path))
