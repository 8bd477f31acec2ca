"""Steps rehearsed once for many tests."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from gputui.model.attached.trace import Rehearsal
from gputui.sources import rehearsal
from gputui.sources.rehearsal import rehearsal_of
from tests import torches
from tests.forkserver import Forked

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def rehearsals(torch_path: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rehearsal]:
    """Of the model with all layers checkpointed, and with the sixth, and the seventh too, whole."""
    names = {"none": "checkpointed", "5": "whole", "5,6": "two whole"}
    reports = torches.run_once(tmp_path_factory, torch_path, PROGRAMS / "rehearsed.py", *names)
    return {names[words]: rehearsal_of(report, "training:setup", torch_path) for words, report in reports.items()}


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Rehearsals are forked after the import of PyTorch, or of the modules that the test names: it takes most time."""
    modules = getattr(request, "param", torches.FORKED_AFTER)

    def run(command: list[str], python: str, paths: Sequence[str], _within_s: float | None) -> int:
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "FAKEGPU_CUBLAS_HANDLES": "1"}
        with TemporaryFile() as errors:
            return Forked(python, command[1:], modules, env=variables, cwd=Path.cwd(), stderr=errors).wait()

    monkeypatch.setattr(rehearsal, "_run", run)
