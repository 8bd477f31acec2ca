"""Programs that run out of memory on a fake device of 4 GiB, and the black boxes they leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gputui.sources.files.black_box import BlackBox, read
from tests import torches
from tests.attach.children import Child, Python
from tests.attach.conftest import sockets  # noqa: F401 - a fixture

PROGRAMS = Path(__file__).parent / "programs"
MEMORY_GIB = 4.0


@dataclass(frozen=True)
class Failed:
    """A program that has ended."""

    output: str
    errors: str
    status: int
    boxes: tuple[Path, ...]

    @property
    def box(self) -> BlackBox:
        """Its only black box."""
        (path,) = self.boxes
        return read(path)


Fail = Callable[..., Failed]


@pytest.fixture
def cuda_python(cuda_path: str, tmp_path: Path, sockets: Path) -> Iterator[Python]:  # noqa: F811
    """A Python with a CUDA build of PyTorch and one small fake device."""
    python = Python(cuda_path, tmp_path, torches.fake_cuda(cuda_path, tmp_path, gpus=1, memory_gib=MEMORY_GIB))
    yield python
    python.end()


@pytest.fixture
def fail(cuda_python: Python, tmp_path: Path) -> Fail:
    """Runs a program of the folder, with black boxes unless `folder` is ""; keywords are environment variables."""

    def run(name: str, *arguments: str, folder: str | None = None, **variables: str) -> Failed:
        kept = tmp_path / "kept" if folder is None else Path(folder)
        variables = {"GPUTUI_BLACK_BOX": "" if folder == "" else str(kept), **variables}
        return ended(cuda_python.fork(PROGRAMS / name, *arguments, **variables), kept)

    return run


def ended(child: Child, kept: Path) -> Failed:
    """The output of a program, once it has ended."""
    status = child.ended()
    assert child.process.stdout is not None
    output = child.process.stdout.read().decode()
    return Failed(output, child.errors, status, tuple(sorted(kept.glob("*"))))
