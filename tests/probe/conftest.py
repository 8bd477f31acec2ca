"""Run the programs in `programs/` with each interpreter under test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import torches

PROGRAMS = Path(__file__).parent / "programs"

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run_program(cuda_path: str, tmp_path: Path) -> Run:
    """Runs a program on a CUDA build with its own two fake devices; keywords are environment variables."""

    def run(name: str, *arguments: str, memory_gib: float = 24, is_forked: bool = True, **variables: str):
        environment = torches.fake_cuda(cuda_path, tmp_path, memory_gib=memory_gib) | variables
        modules = torches.FORKED_AFTER if is_forked else ()
        return torches.run_program(cuda_path, PROGRAMS / name, *arguments, environment=environment, modules=modules)

    return run


@pytest.fixture(scope="session")
def run_once(torch_path: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a program on any build, once for all tests that use it, even across xdist's workers."""

    def run(name: str, *arguments: str):
        return torches.run_once(tmp_path_factory, torch_path, PROGRAMS / name, *arguments)

    return run
