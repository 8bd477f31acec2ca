"""Pythons that have a real PyTorch: `GPUTUI_TEST_TORCH` names them, with colons between them.

A CUDA build runs on the fake CUDA runtime of `tests/fakegpu`, each program with fake GPUs of its own; a CPU build runs
as it is.
"""

from __future__ import annotations

import json
import os
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from tests.fakegpu.lab import Lab, build

REPOSITORY = Path(__file__).resolve().parent.parent
ENDING = REPOSITORY / "tests" / "ending"

HOW_TO_SET = (
    "GPUTUI_TEST_TORCH is not set: make a virtual environment with PyTorch (`pip install torch==2.11.0`) and name its "
    "interpreter, or several with colons between them: GPUTUI_TEST_TORCH=cuda/bin/python:cpu/bin/python pytest"
)


def torch_pythons() -> list[str]:
    """The interpreters under test, CPU builds too."""
    return [path for path in os.environ.get("GPUTUI_TEST_TORCH", "").split(":") if path]


def parametrize(metafunc: pytest.Metafunc, name: str, found: list[str]) -> None:
    """Run a test with each interpreter; where there is none, once, with "" (see `required`)."""
    ids = [Path(path).parents[1].name for path in found] or ["unset"]
    metafunc.parametrize(name, found or [""], ids=ids, scope="session")


def required(path: str) -> str:
    """`path`, or a failure that says how to name an interpreter."""
    if not path:
        pytest.fail(HOW_TO_SET, pytrace=False)
    return path


@lru_cache
def has_cuda_build(python: str) -> bool:
    """Whether an interpreter's PyTorch is a CUDA build, told without importing it."""
    code = "import importlib.util as u, runpy; s = u.find_spec('torch').submodule_search_locations[0]; "
    code += "print(runpy.run_path(s + '/version.py').get('cuda') or '')"
    told = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True, timeout=300)
    return bool(told.stdout.strip())


def fake_cuda(python: str, folder: Path, *, gpus: int = 2, memory_gib: float = 79.65) -> dict[str, str]:
    """Variables with which an interpreter's programs see fake GPUs of their own; none for a CPU build."""
    if not has_cuda_build(python):
        return {}
    libraries = REPOSITORY / ".fakegpu" / f"{crc32(python.encode()):x}"  # a build belongs to one CUDA version
    build(libraries, python)
    lab = Lab(folder / "gpus", is_new=True)
    lab.up(gpus, memory_gib=memory_gib)
    return {**lab.environment_of(libraries), "LD_PRELOAD": str(libraries / "libcuda.so.1")}


def run_program(
    python: str, program: Path, *arguments: str, environment: dict[str, str], timeout_s: float = 300
) -> dict[str, Any]:
    """Run a program to its end; the JSON on its last line of output."""
    done = subprocess.run(
        [python, "-W", "ignore", str(program), *arguments],
        env={**os.environ, "PYTHONPATH": f"{ENDING}:{REPOSITORY}", "GPUTUI_PROBE": "0", **environment},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, f"{program.name} {arguments} ended with {done.returncode}:\n{done.stderr[-4000:]}"
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
