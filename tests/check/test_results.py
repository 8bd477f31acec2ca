"""A result that is made by its remembered size is as the operation makes it."""

from __future__ import annotations

from pathlib import Path

from tests import torches

PROGRAM = Path(__file__).resolve().parent / "programs" / "alike.py"


def test_remembered_results_are_those_of_the_operations(torch_path: str) -> None:
    met = torches.run_program(torch_path, PROGRAM, environment={})
    assert met["cases"] > 10
    assert met["wrong"] == {}
