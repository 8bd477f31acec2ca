"""The bytes that a stopped thread runs are those of their source."""

from __future__ import annotations

import shutil

from gputui.inject.ways import x86_64
from tests.inject.assemble import pieces


def test_the_machine_code_is_assembled_from_its_source() -> None:
    assert shutil.which("as"), "install the assembler `as` to check the machine code"
    assert pieces() == {"map": x86_64.MAP, "queue": x86_64.QUEUE}
