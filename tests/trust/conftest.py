"""Interpreters and socket folders as the tests of attaching have them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import torches
from tests.attach import conftest as attaching
from tests.attach.children import Child, Python
from tests.attach.conftest import python, sockets, torch_python

__all__ = ["python", "sockets", "torch_python"]


def require_root() -> None:
    """Leave a test out, which CI does not allow, for whoever cannot become another user or mount a folder."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for other users and for mounts")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    attaching.pytest_generate_tests(metafunc)
    if "cuda_path" in metafunc.fixturenames:
        cuda = [path for path in torches.torch_pythons() if torches.has_cuda_build(path)]
        torches.parametrize(metafunc, "cuda_path", cuda)


COUNTING = """
    import gputui.probe, time
    steps = open("steps", "w")
    print("ready", gputui.probe.status(), flush=True)
    while True:
        steps.write(".")
        steps.flush()
        time.sleep(0.001)
"""


class Target:
    """A program that goes on and on, and tells how far it is."""

    def __init__(self, child: Child, folder: Path) -> None:
        self.child = child
        self.path = child.expect("ready")
        self._steps = folder / "steps"

    def steps(self) -> int:
        """How many steps it has made."""
        return self._steps.stat().st_size

    def descriptors(self) -> int:
        """How many it has open."""
        return len(list(Path(f"/proc/{self.child.pid}/fd").iterdir()))


@pytest.fixture
def target(python: Python) -> Iterator[Target]:
    """A target with a probe."""
    target = Target(python.start(COUNTING), python.folder)
    yield target
    assert target.child.process.poll() is None, target.child.errors
    assert target.child.errors == ""
