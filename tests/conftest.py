"""Fake GPUs for every test that needs them: the real nvidia-ml-py on the fake `libnvidia-ml.so.1`."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from tests import torches
from tests.fakegpu.lab import Lab, build

PLUGINS = ("left_out", "longest", "night", "no_skips", "quick", "rewriting", "surroundings", "waiting", "workers")
pytest_plugins = [f"tests.plugins.{name}" for name in PLUGINS]

ROOT = Path(__file__).resolve().parent.parent


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    torches.parametrize(metafunc)


class FakeGpus(Lab):
    """The fake GPUs of one test: NVML reports them in this process, and in child processes that get `environment`."""

    def __init__(self, path: Path, library_folder: Path) -> None:
        super().__init__(path, is_new=True)
        self.library_folder = library_folder

    @property
    def environment(self) -> dict[str, str]:
        """This process's environment with the variables that let a child process see these GPUs."""
        return {**os.environ, **super().environment_of(self.library_folder)}


@pytest.fixture(scope="session")
def fake_nvml_folder() -> Path:
    """The folder of the fake libraries ($FAKEGPU_LIB, or `.fakegpu`), built from `tests/fakegpu` if missing."""
    folder = Path(os.environ.get("FAKEGPU_LIB", ROOT / ".fakegpu"))
    build(folder)
    return folder


@pytest.fixture(scope="session")
def fake_nvml(fake_nvml_folder: Path) -> ctypes.CDLL:
    """The loaded fake library: when nvidia-ml-py loads the same SONAME, the loader returns this one."""
    return ctypes.CDLL(str(fake_nvml_folder / "libnvidia-ml.so.1"))


@pytest.fixture
def fake_gpus(fake_nvml: ctypes.CDLL, fake_nvml_folder: Path, tmp_path: Path) -> Iterator[FakeGpus]:
    """Two GPUs with their own state for each test; `fake_gpus.up(...)` replaces them."""
    gpus = FakeGpus(tmp_path / "fakegpu.state", fake_nvml_folder)
    gpus.up(2)
    fake_nvml.fg_use(str(gpus.path).encode())
    pynvml.nvmlLib = None
    pynvml._nvmlGetFunctionPointer_cache.clear()
    yield gpus
    fake_nvml.fg_use(b"/nowhere")
