"""Run the programs in `programs/` with each interpreter under test."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

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
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def run(name: str, *arguments: str):
        result_file = shared / f"{name}-{crc32(torch_path.encode()):x}.json"
        with result_file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not result_file.exists():
                environment = torches.fake_cuda(torch_path, tmp_path_factory.mktemp("fakegpu"))
                report = torches.run_program(torch_path, PROGRAMS / name, *arguments, environment=environment)
                result_file.write_text(json.dumps(report))
        return json.loads(result_file.read_text())

    return run
