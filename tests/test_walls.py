"""Rules of the architecture that a linter cannot check: imports at run time, file lengths, and module names."""

import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "gputui"
FOREIGN = ("textual", "rich", "pynvml", "psutil", "torch")
LINES_AT_MOST = 330


@pytest.mark.parametrize("module", ["gputui.probe", "gputui.protocol", "gputui.model", "gputui.explain", "gputui.cli"])
def test_an_import_loads_no_library(module: str) -> None:
    code = f"import sys, {module}; print(*[name for name in {FOREIGN!r} if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"GPUTUI_PROBE": "0", "PATH": ""}
    )
    assert result.stdout.split() == []


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_is_not_too_long(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LINES_AT_MOST


def test_no_module_has_a_catch_all_name() -> None:
    forbidden = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}
    assert not [path for path in PACKAGE.rglob("*") if path.stem in forbidden]
