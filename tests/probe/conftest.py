"""The programs of `programs/`, run by each interpreter under test."""

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
    """Runs a program on a CUDA build with two fake devices of its own; variables of its environment by keyword."""

    def run(name: str, *arguments: str, memory_gib: float = 24, is_forked: bool = True, **variables: str):
        environment = torches.fake_cuda(cuda_path, tmp_path, memory_gib=memory_gib) | variables
        modules = ("torch",) if is_forked else ()
        return torches.run_program(cuda_path, PROGRAMS / name, *arguments, environment=environment, modules=modules)

    return run


@pytest.fixture(scope="session")
def run_once(torch_path: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a program on any build, once for many tests."""

    def run(name: str, *arguments: str):
        environment = torches.fake_cuda(torch_path, tmp_path_factory.mktemp("fakegpu"))
        modules = ("torch", "torch._dynamo")
        return torches.run_program(torch_path, PROGRAMS / name, *arguments, environment=environment, modules=modules)

    return run
