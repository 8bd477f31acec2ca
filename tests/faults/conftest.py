"""A program with a probe, and runs beside it; terminals as in the tests of terminals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import FakeGpus
from tests.faults.runs import Runs, program_with_probe
from tests.terminal.conftest import plain_environment, terminal  # noqa: F401 - fixtures


@pytest.fixture(scope="module")
def target() -> Iterator[int]:
    """A program with a probe."""
    with program_with_probe() as pid:
        yield pid


@pytest.fixture
def runs(fake_gpus: FakeGpus, tmp_path: Path, target: int) -> Runs:
    return Runs(fake_gpus, tmp_path, target)
