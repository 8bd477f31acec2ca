"""The interpreters and socket folders of the attach tests, and a target that counts its steps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attach import conftest as attaching
from tests.attach.children import Child, Python
from tests.attach.conftest import cuda_python, python, sockets, torch_python

__all__ = ["cuda_python", "python", "sockets", "torch_python"]


ANA = 100_000 + 2 * os.getpid()
BEN = ANA + 1
"""Users, unique to this test process, because several may run at once and share /tmp."""

pytest_generate_tests = attaching.pytest_generate_tests

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
    """A program that runs forever and writes one byte to a file at every step."""

    def __init__(self, child: Child, folder: Path) -> None:
        self.child = child
        self.path = child.expect("ready")
        self._steps = folder / "steps"

    def steps(self) -> int:
        """The number of steps so far."""
        return self._steps.stat().st_size

    def descriptors(self) -> int:
        """The number of open file descriptors."""
        return len(list(Path(f"/proc/{self.child.pid}/fd").iterdir()))


@pytest.fixture
def target(python: Python) -> Iterator[Target]:
    """A target with a probe, which must still run, and have an empty stderr, after the test."""
    target = Target(python.start(COUNTING), python.folder)
    yield target
    assert target.child.process.poll() is None, target.child.errors
    assert target.child.errors == ""
