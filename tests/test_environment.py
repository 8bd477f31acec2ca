"""One list of environment variables: the ones that code and documentation use, and that the doctor knows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gputui import environment
from gputui.doctor import Diagnosis
from gputui.doctor.checks import check_settings
from gputui.doctor.here import Here, Terminal
from gputui.model.machine.device import DeviceLook, Driver
from gputui.model.machine.process import ProcessLook
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


def test_every_variable_in_code_and_docs_is_declared() -> None:
    mentions = {(name, path.relative_to(REPOSITORY)) for path in TEXTS for name in NAMES.findall(path.read_text())}
    assert {name for name, _ in mentions} >= set(environment.OF_NO_SETTING)
    assert [(name, path) for name, path in sorted(mentions) if name not in VARIABLES] == []


def test_each_variable_is_declared_once_with_the_prefix() -> None:
    assert len(set(VARIABLES)) == len(VARIABLES)
    assert [name for name in VARIABLES if not name.startswith(environment.PREFIX)] == []


def diagnoses_of(name: str) -> list[Diagnosis]:
    """The doctor's findings about a variable set to an empty value, which every setting accepts."""
    here = Here({name: ""}, Terminal(None, ""), DeviceLook(Driver("", "")), ProcessLook())
    return [finding for finding in check_settings(here) if name in finding.text]


@pytest.mark.parametrize("name", VARIABLES)
def test_the_doctor_knows_every_variable(name: str) -> None:
    assert diagnoses_of(name) == []


def test_the_doctor_reports_an_unknown_variable() -> None:
    (finding,) = diagnoses_of("GPUTUI_PROBE_ACT")
    assert finding.remedy == "Did you mean GPUTUI_PROBE_ACTS?"
