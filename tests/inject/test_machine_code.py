"""The bytes that a stopped thread runs are those of their source."""

from __future__ import annotations

import shutil

import pytest

from gputui.inject.ways.machine_code import MACHINES
from tests.inject.assemble import ASSEMBLERS, pieces


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_the_machine_code_is_assembled_from_its_source(name: str) -> None:
    assert shutil.which(ASSEMBLERS[name][0]), f"install {ASSEMBLERS[name][0]} to check the machine code"
    assert pieces(name) == {"map": MACHINES[name].map, "queue": MACHINES[name].queue}
