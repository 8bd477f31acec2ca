"""Pythons that have a real PyTorch: this one, or the colon-separated list in `GPUTUI_TEST_TORCH`.

Tests run with the first one; those marked `every_torch` run with each:

    GPUTUI_TEST_TORCH=one/bin/python:other/bin/python pytest -m every_torch

A CUDA build runs on the fake CUDA runtime of `tests/fakegpu`, each program with its own fake GPUs; a CPU build runs
as it is.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from subprocess import Popen
from tempfile import TemporaryFile
from types import MappingProxyType
from typing import Any
from zlib import crc32

import pytest

from tests.fakegpu.lab import Lab, build
from tests.forkserver import Forked
from tests.hanging import HANGS_S
from tests.scale import SCALE

REPOSITORY = Path(__file__).resolve().parent.parent
ENDING = REPOSITORY / "tests" / "ending"

TESTED_TORCH = "2.11.0"  # as in pyproject.toml

# PyTorch 2.14 has kernels of triton's, which no fake GPU can load.
os.environ.setdefault("TORCH_DISABLE_NATIVE_JIT", "1")

FORKED_AFTER = ("torch", "torch._dynamo")
"""What a forked program has imported: the first optimizer imports `torch._dynamo`, which takes as long as PyTorch."""

NOTHING: Mapping[str, str] = MappingProxyType({})

NO_CUDA_BUILD = ""
"""Stands for an interpreter with a CUDA build if there is none: tests that need one are left out."""


def torch_pythons() -> list[str]:
    """The interpreters in `GPUTUI_TEST_TORCH`, including CPU builds, or this one."""
    return [path for path in os.environ.get("GPUTUI_TEST_TORCH", "").split(":") if path] or [sys.executable]


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Pass a test the first interpreter, or each one if it is marked `every_torch`, as `torch_path` or `cuda_path`."""
    for name in filter(metafunc.fixturenames.__contains__, ("torch_path", "cuda_path")):
        paths = [path for path in torch_pythons() if name == "torch_path" or has_cuda_build(path)]
        chosen = paths if metafunc.definition.get_closest_marker("every_torch") else paths[:1]
        ids = [Path(path).absolute().parents[1].name for path in chosen] or ["no-cuda-build"]
        metafunc.parametrize(name, chosen or [NO_CUDA_BUILD], ids=ids, scope="session")


@lru_cache
def has_cuda_build(python: str) -> bool:
    """Whether an interpreter's PyTorch is a CUDA build, found without importing it."""
    code = "import importlib.util as u, runpy; s = u.find_spec('torch').submodule_search_locations[0]; "
    code += "print(runpy.run_path(s + '/version.py').get('cuda') or '')"
    result = subprocess.run([python, "-c", code], check=False, capture_output=True, text=True, timeout=HANGS_S)
    if result.returncode:
        message = f"{python} has no PyTorch for the tests: {python} -m pip install torch=={TESTED_TORCH}"
        raise pytest.UsageError(message)
    return bool(result.stdout.strip())


@lru_cache
def lacking_packages(python: str, packages: tuple[str, ...]) -> tuple[str, ...]:
    """Those that an interpreter cannot import."""
    code = "import importlib.util, sys; print(*[name for name in sys.argv[1:] if not importlib.util.find_spec(name)])"
    words = [python, "-c", code, *packages]
    result = subprocess.run(words, check=True, capture_output=True, text=True, timeout=HANGS_S)
    return tuple(result.stdout.split())


def fake_cuda(python: str, folder: Path, *, gpus: int = 2, memory_gib: float = 79.65) -> dict[str, str]:
    """Environment variables that give an interpreter's programs their own fake GPUs; empty for a CPU build."""
    if not has_cuda_build(python):
        return {}
    libraries = REPOSITORY / ".fakegpu" / f"{crc32(python.encode()):x}"  # a build works with one CUDA version only
    build(libraries, python)
    lab = Lab(folder / "gpus", is_new=True)
    lab.up(gpus, memory_gib=memory_gib)
    return {**lab.environment_of(libraries), "LD_PRELOAD": "libcuda.so.1"}  # a path with a space would be two libraries


def run_program(
    python: str,
    program: Path,
    *arguments: str,
    environment: dict[str, str],
    modules: tuple[str, ...] = FORKED_AFTER,
) -> dict[str, Any]:
    """Run a program, forked after the import of `modules`, and return the JSON object on its last line of output.

    Without modules it gets its own interpreter: see `tests.forkserver`.
    """
    words = [str(program), *arguments]
    start = partial(Forked, python, words, modules) if modules else partial(Popen, [python, "-W", "ignore", *words])
    variables = {**os.environ, "PYTHONPATH": f"{ENDING}:{REPOSITORY}", "GPUTUI_PROBE": "0", **environment}
    with TemporaryFile() as output, TemporaryFile() as errors:
        process = start(env=variables, cwd=REPOSITORY, stdout=output, stderr=errors)
        try:
            status = process.wait(HANGS_S * SCALE)
        finally:
            process.kill()
        output.seek(0)
        errors.seek(0)
        error_text = errors.read().decode(errors="replace")[-4000:]
        assert status == 0, f"{program.name} {arguments} ended with {status}:\n{error_text}"
        report: dict[str, Any] = json.loads(output.read().splitlines()[-1])
    return report


def run_once(
    folders: pytest.TempPathFactory, python: str, program: Path, *arguments: str, variables: Mapping[str, str] = NOTHING
) -> dict[str, Any]:
    """The report of a program on two fake GPUs, run once for all tests that ask for it, even across xdist's workers."""
    base = folders.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    asked = json.dumps([python, str(program), *arguments, sorted(variables.items())])
    result_file = shared / f"{program.stem}-{crc32(asked.encode()):x}.json"
    with result_file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result_file.exists():
            environment = fake_cuda(python, folders.mktemp("fakegpu")) | variables
            result_file.write_text(json.dumps(run_program(python, program, *arguments, environment=environment)))
    report: dict[str, Any] = json.loads(result_file.read_text())
    return report
