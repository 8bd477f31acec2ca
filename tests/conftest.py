"""Fake GPUs for every test that wants some: the real nvidia-ml-py against the fake `libnvidia-ml.so.1`."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from tests import torches
from tests.fakegpu.lab import Lab, build

pytest_plugins = ["tests.plugins.left_out", "tests.plugins.workers"]

# A shell starts what it runs behind it with SIGINT ignored, nohup with SIGHUP: programs under test would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.environ["GPUTUI_PROBE"] = "0"  # tests import parts of the probe: no process of theirs is to be attached to

ROOT = Path(__file__).resolve().parent.parent


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    torches.parametrize(metafunc)


class FakeGpus(Lab):
    """The fake GPUs of one test: what NVML says in this process, and in others that get `environment`."""

    def __init__(self, path: Path, library_folder: Path) -> None:
        super().__init__(path, is_new=True)
        self.library_folder = library_folder

    @property
    def environment(self) -> dict[str, str]:
        """Variables for a child process that is to see these GPUs, on top of this process's own."""
        return {**os.environ, **super().environment_of(self.library_folder)}


@pytest.fixture(scope="session")
def fake_nvml_folder() -> Path:
    """Where the fake libraries are, built from `tests/fakegpu` where they are not; $FAKEGPU_LIB names another place."""
    folder = Path(os.environ.get("FAKEGPU_LIB", ROOT / ".fakegpu"))
    build(folder)
    return folder


@pytest.fixture(scope="session")
def fake_nvml(fake_nvml_folder: Path) -> ctypes.CDLL:
    """The fake library, loaded: nvidia-ml-py asks for its SONAME and the loader answers with this one."""
    return ctypes.CDLL(str(fake_nvml_folder / "libnvidia-ml.so.1"))


@pytest.fixture
def fake_gpus(fake_nvml: ctypes.CDLL, fake_nvml_folder: Path, tmp_path: Path) -> Iterator[FakeGpus]:
    """Two GPUs with a state of the test's own; `fake_gpus.up(...)` makes others."""
    gpus = FakeGpus(tmp_path / "fakegpu.state", fake_nvml_folder)
    gpus.up(2)
    fake_nvml.fg_use(str(gpus.path).encode())
    pynvml.nvmlLib = None
    pynvml._nvmlGetFunctionPointer_cache.clear()
    yield gpus
    fake_nvml.fg_use(b"/nowhere")
