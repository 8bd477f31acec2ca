"""Steps rehearsed once for many tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputui.model.attached.trace import Rehearsal
from gputui.sources.rehearsal import rehearsal_of
from tests import torches

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def rehearsals(torch_path: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rehearsal]:
    """Of the model with all layers checkpointed, and with the sixth, and the seventh too, whole."""
    names = {"none": "checkpointed", "5": "whole", "5,6": "two whole"}
    reports = torches.run_once(tmp_path_factory, torch_path, PROGRAMS / "rehearsed.py", *names)
    return {names[words]: rehearsal_of(report, "training:setup", torch_path) for words, report in reports.items()}
