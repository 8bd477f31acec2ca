"""The programs of `programs/`, run by each interpreter under test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import torches

PROGRAMS = Path(__file__).parent / "programs"

Run = Callable[..., dict[str, Any]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "torch_path" in metafunc.fixturenames:
        torches.parametrize(metafunc, "torch_path", torches.torch_pythons())
    if "cuda_path" in metafunc.fixturenames:
        cuda = [path for path in torches.torch_pythons() if torches.has_cuda_build(path)]
        torches.parametrize(metafunc, "cuda_path", cuda)


@pytest.fixture
def run_program(cuda_path: str, tmp_path: Path) -> Run:
    """Runs a program on a CUDA build with two fake devices of its own; variables of its environment by keyword."""

    def run(name: str, *arguments: str, memory_gib: float = 24, timeout_s: float = 300, **variables: str):
        environment = torches.fake_cuda(torches.required(cuda_path), tmp_path, memory_gib=memory_gib) | variables
        return torches.run_program(cuda_path, PROGRAMS / name, *arguments, environment=environment, timeout_s=timeout_s)

    return run


@pytest.fixture(scope="session")
def run_once(torch_path: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a program on any build, once for many tests."""

    def run(name: str, *arguments: str):
        environment = torches.fake_cuda(torches.required(torch_path), tmp_path_factory.mktemp("fakegpu"))
        return torches.run_program(torch_path, PROGRAMS / name, *arguments, environment=environment)

    return run
