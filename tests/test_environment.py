"""One list of environment variables: what the source and the documents name, what the doctor knows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gputui import environment
from gputui.doctor import Diagnosis
from gputui.doctor.checks import check_settings
from gputui.doctor.here import Here, Terminal
from gputui.model.device import DeviceLook, Driver
from gputui.model.process import ProcessLook
from gputui.settings.table import VARIABLES

REPOSITORY = Path(__file__).resolve().parent.parent
TEXTS = sorted(
    path
    for folder, pattern in (
        ("gputui", "**/*.py"),
        ("gputui", "**/*.md"),
        ("docs", "*.md"),
        ("", "README.md"),
        ("", "SECURITY.md"),
    )
    for path in (REPOSITORY / folder).glob(pattern)
)
NAMES = re.compile(r"GPUTUI_(?!TEST_)[A-Z][A-Z_]*[A-Z]")  # GPUTUI_TEST_ names are read by tests and benchmarks


def test_every_variable_that_is_named_is_in_the_list() -> None:
    named = {(name, path.relative_to(REPOSITORY)) for path in TEXTS for name in NAMES.findall(path.read_text())}
    assert {name for name, _ in named} >= set(environment.OF_NO_SETTING)
    assert [(name, path) for name, path in sorted(named) if name not in VARIABLES] == []


def test_each_is_declared_once_under_the_prefix() -> None:
    assert len(set(VARIABLES)) == len(VARIABLES)
    assert [name for name in VARIABLES if not name.startswith(environment.PREFIX)] == []


def told(name: str) -> list[Diagnosis]:
    """What the doctor says against a variable that is set, empty, which is right for every form."""
    here = Here({name: ""}, Terminal(None, ""), DeviceLook(Driver("", "")), ProcessLook())
    return [finding for finding in check_settings(here) if name in finding.text]


@pytest.mark.parametrize("name", VARIABLES)
def test_the_doctor_knows_it(name: str) -> None:
    assert told(name) == []


def test_the_doctor_does_not_know_another() -> None:
    (finding,) = told("GPUTUI_PROBE_ACT")
    assert finding.remedy == "Did you mean GPUTUI_PROBE_ACTS?"
