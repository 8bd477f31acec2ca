"""Interpreters to attach to; each test has its own socket folder.

$GPUTUI_TEST_PYTHON is a colon-separated list of further Pythons, which need no PyTorch.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import torches
from tests.attach.children import Python


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "python_path" in metafunc.fixturenames:
        with_paths(metafunc, python_paths())


def python_paths() -> list[str]:
    """This interpreter, and those that are named."""
    return [sys.executable, *filter(None, os.environ.get("GPUTUI_TEST_PYTHON", "").split(":"))]


def with_paths(metafunc: pytest.Metafunc, paths: list[str]) -> None:
    """Run a test with each of these interpreters."""
    names = ["this" if path == sys.executable else Path(path).parents[1].name for path in paths]
    metafunc.parametrize("python_path", paths, ids=names)


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of this test's sockets, under a short path because socket paths are limited in length."""
    folder = Path(tempfile.mkdtemp(prefix="gputui-"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    yield folder / "gputui"
    shutil.rmtree(folder)


@pytest.fixture
def python(python_path: str, tmp_path: Path, sockets: Path) -> Iterator[Python]:
    """A Python without PyTorch."""
    python = Python(python_path, tmp_path, {})
    yield python
    python.end()


@pytest.fixture
def torch_python(torch_path: str, tmp_path: Path, sockets: Path) -> Iterator[Python]:
    """A Python with PyTorch, and with two fake GPUs if that is a CUDA build."""
    python = Python(torch_path, tmp_path, torches.fake_cuda(torch_path, tmp_path))
    yield python
    python.end()


@pytest.fixture
def cuda_python(cuda_path: str, tmp_path: Path, sockets: Path) -> Iterator[Python]:
    """A Python with a CUDA build of PyTorch, and two fake GPUs."""
    python = Python(cuda_path, tmp_path, torches.fake_cuda(cuda_path, tmp_path))
    yield python
    python.end()
